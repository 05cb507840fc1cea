"""What the report says: tables, captions, escapes, and blocks in other documents."""

import copy

import pytest

from kernelzoo.report import ResultsError, load, notes, result_tables, rows, sections, writing
from kernelzoo.report.table import Cell, Table, escape, format_number, ratio_text


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_time_table_shows_times_and_speeds_with_the_best_in_bold(entry, write) -> None:
    entries = [entry(shape=(1000, 1000), us=8.0), entry(shape=(16, 1000), us=2.0)]
    entries += [entry("triton/softmax/auto", (1000, 1000), 4.0), entry("cpu/softmax/auto", (16, 1000), 123.4)]
    selection = load([write(entries)]).groups[0].select("softmax", "float32")
    lines = result_tables.time_table(selection, selection.problems).markdown().splitlines()
    assert lines[1] == "| :-- | --: | --: | --: |"
    assert [cells(line) for line in lines[:1] + lines[2:]] == [
        ["shape", "torch/eager", "cpu/auto", "triton/auto"],
        ["(16, 1000)", "**2.00 (64.0)**", "123 (1.04)", "-"],
        ["(1000, 1000)", "8.00 (1000)", "-", "**4.00 (2000)**"],
    ]


def test_summary_is_ordered_by_ratio_and_says_what_is_covered(entry, write) -> None:
    entries = [entry(shape=(1000, n), us=us) for n, us in ((500, 8.0), (1000, 16.0))]
    entries += [entry("triton/softmax/auto", (1000, n), us, submit_us=7.0) for n, us in ((500, 4.0), (1000, 4.0))]
    entries += [entry("triton/softmax/fused", (1000, 500), 2.0)]
    entries += [entry("cupy/softmax/auto", (1000, 500), 20.0)]
    table = result_tables.summary_table(load([write(entries)]).groups[0].select("softmax"))
    assert table.headers == ["implementation", "time / torch/eager", "of limit", "host submit, µs", "problems"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["triton/softmax/auto", "0.35", "61%", "7.00", "2 of 2"],
        ["torch/softmax/eager", "1.00", "22%", "5.00", "2 of 2"],
        ["cupy/softmax/auto", "2.50", "10%", "5.00", "1 of 2; best ranked 0.50"],
        ["triton/softmax/fused", "0.25", "100%", "5.00", "1 of 2; best ranked 0.50"],
    ]
    assert "1 of 2; best ranked 0.50" in table.text(62) and "of limit" not in table.text(62).splitlines()[0]


def test_summary_without_a_baseline_has_no_ratios(entry, write) -> None:
    selection = load([write([entry("triton/softmax/auto"), entry("triton/softmax/fused")])]).groups[0].select("softmax")
    assert [row[1].text for row in result_tables.summary_table(selection).rows] == ["-", "-"]
    assert result_tables.ratio_table(selection) is None


def test_the_facts_about_bits_stand_in_the_summary(entry, write) -> None:
    """On how many problems, of those where they are known."""
    facts = {"triton": (True, True), "cupy": (True, False), "numba": (False, None)}
    shapes = [(8, 64), (8, 128)]
    rows = [
        entry(f"{name}/softmax/auto", shape, same_bits=same, batch_invariant=alone and shape == (8, 64))
        for name, (same, alone) in facts.items()
        for shape in shapes
    ]
    results = load([write([*rows, entry("helion/softmax/auto", shapes[0])])])
    table = result_tables.summary_table(results.groups[0].select("softmax"))
    places = [table.headers.index(name) for name in ("run to run", "batch-invariant")]
    found = {row[0].text.partition("/")[0]: [row[place].text for place in places] for row in table.rows}
    assert found == {"triton": ["yes", "1 of 2"], "cupy": ["yes", "no"], "numba": ["no", "-"], "helion": ["-", "-"]}
    assert "`run to run`: the same inputs" in sections.report(results, "A title", {})
    assert "run to run: the same inputs" in sections.terminal_text(results, 80)
    older = load([write([entry("triton/softmax/auto")])])
    assert "run to run" not in sections.report(older, "A title", {})


def test_host_ratios_are_shown_for_each_problem(host, write) -> None:
    text = sections.document_blocks(load([write(host)]))["host-ratios"]
    assert "| problem | cpu/auto | torch/naive |" not in text  # torch's own come first
    assert "| problem | torch/naive | cpu/auto |" in text
    assert "| float32 (128, 256) | 3.00 | 1.20 |" in text  # torch is the fastest: nothing in bold
    assert "| float32 (4096, 4096) | 3.00 | **0.75** |" in text
    assert "of limit" not in sections.document_blocks(load([write(host)]))["summary"].split("`time")[0]


def test_report_holds_every_section_and_never_mixes_groups(sweep, host, write) -> None:
    results = load([write(sweep + host)])
    figures = {("NVIDIA H200, device clock", "softmax", "float32"): "softmax-float32.png"}
    text = sections.report(results, "A <title> | *x*", figures)
    assert text.startswith("# A &lt;title&gt; \\| \\*x\\*\n")
    headings = [line for line in text.splitlines() if line.startswith("#")][1:]
    assert headings == [
        "## NVIDIA H200, device clock",
        "### min, float32",
        "### softmax, float32",
        "## Some &lt;CPU&gt; \\| 2 cores, wall clock",
        "### softmax, float32",
    ]
    assert text.count("![") == 1 and "(softmax-float32.png)" in text
    assert text.count("<details><summary>All 100 shapes</summary>") == 2
    device, wall = text.split("## Some")
    assert "cpu/softmax/auto" not in device and "triton" not in wall
    table = next(part for part in device.split("\n\n") if part.startswith("| shape | torch/eager | torch/compile"))
    assert len(cells(table.splitlines()[0])) == 13
    assert len(table.splitlines()) == 2 + 7 + 2
    assert all(line.count("**") == 2 for line in table.splitlines()[2:])


def test_environment_names_what_the_figures_rest_on(entry, write) -> None:
    entries = [entry(), entry("triton/softmax/auto", samples=10, versions={"torch": "2.11.0", "triton": "3.6.0"})]
    entries += [entry("torch/softmax/compile", clock_detail="events")]
    assert sections.environment(load([write(entries)])) == (
        "- **NVIDIA H200**, device clock (CUDA graph between events, L2 cold; events for torch/softmax/compile): "
        "3 results (sweep); 10 to 50 samples each; ceiling for softmax 4000 GB/s; smallest launch 1.00 µs; "
        "python 3.12.1; torch 2.11.0; driver 580.95; triton 3.6.0; "
        "measured 2026-01-02T03:04:05+00:00 at commit 0123456789 (results.json)"
    )


def test_environment_owns_up_to_what_was_left_out(entry, write) -> None:
    paths = [write([entry()], f"{date}.json", date) for date in ("2026-01-01", "2026-01-02")]
    lines = sections.environment(load(paths)).splitlines()
    assert len(lines) == 2 and "2026-01-02.json" in lines[0]
    assert "results of older runs left out: 1;" in lines[1]


def test_report_owns_up_to_what_has_no_result(entry, write, failure) -> None:
    failed = [failure(), failure(shape=[8, 5]), failure(id="a/softmax/b", outcome="wrong", reason="3 | *off*")]
    text = sections.report(load([write([entry()], ours={"format": 1, "failed": failed})]), "t", {})
    table = text.split("## Without a result\n\n")[1].splitlines()
    assert [cells(line)[:3] for line in table[2:]] == [
        ["a/softmax/b", "wrong", "3 \\"],  # the escaped bar is no new column
        ["triton/softmax/fused", "refused", "holds a row in registers; use online"],
    ]
    assert cells(table[3])[3:5] == ["2", "float32 (8, 5); float32 (8, 1048576)"]
    assert "Without a result" not in sections.report(load([write([entry()])]), "t", {})


def test_another_baseline_is_named_wherever_ratios_are(entry, write) -> None:
    results = load([write([entry(us=10.0), entry("triton/softmax/auto", us=5.0)])]).relative_to("triton/auto")
    assert "| torch/softmax/eager | 2.00 |" in sections.report(results, "t", {})
    everything = sections.report(results, "t", {}) + sections.terminal_text(results)
    assert "time / triton/auto" in everything and "/ torch/eager" not in everything


def test_without_the_baseline_the_fastest_is_first_too(entry, write) -> None:
    entries = [entry("cpu/softmax/auto", us=9.0), entry("triton/softmax/auto", us=5.0)]
    table = result_tables.summary_table(load([write(entries)]).groups[0].select("softmax"))
    assert [line[0].text for line in table.rows] == ["triton/softmax/auto", "cpu/softmax/auto"]


def test_terminal_text_is_aligned(host, write) -> None:
    title, summary, ratios, star = sections.terminal_text(load([write(host)])).split("\n\n")
    assert title == "softmax on Some <CPU> | 2 cores, wall clock; ratios are time / torch/eager, below 1 is faster"
    assert summary.splitlines() == [
        "implementation       time / torch/eager  problems",
        "─────────────────────────────────────────────────",
        "cpu/softmax/auto                   0.95    2 of 2",
        "torch/softmax/eager                1.00    2 of 2",
        "torch/softmax/naive                3.00    2 of 2",
    ]
    assert ratios.splitlines() == [
        "problem               torch/naive  cpu/auto",
        "───────────────────────────────────────────",
        "float32 (128, 256)           3.00      1.20",
        "float32 (4096, 4096)         3.00     0.75*",
    ]
    assert star == "* the fastest of its row, and faster than the baseline"


def test_disturbed_results_are_marked_and_never_the_best(host, write) -> None:
    entries = copy.deepcopy(host)
    for info in (entry["extra_info"] for entry in entries):
        disturbed = info["shape"] == [4096, 4096] and info["id"] != "torch/softmax/naive"
        info["flags"] = ["disturbed"] if disturbed else []
    results = load([write(entries)])
    blocks, text = sections.document_blocks(results), sections.terminal_text(results)
    assert "| float32 (4096, 4096) | 3.00 | 0.75 \\~ |" in blocks["host-ratios"]
    assert "| cpu/softmax/auto | 0.95 | 2 of 2, 1 \\~ |" in blocks["summary"]
    assert "15000 (8.95) \\~ |" in blocks["table-softmax-float32"]
    assert "**15000" not in blocks["table-softmax-float32"] and "**100 (2.62)**" in blocks["table-softmax-float32"]
    note = "~ (2 of 6 results) disturbed by other work or a changed clock."
    assert note in text and all(f"\\{note}" in blocks[name] for name in ("host-ratios", "summary"))
    assert "0.75 ~" in text and "0.75*" not in text and "* the fastest" not in text


def test_our_variants_are_the_same_whatever_the_baseline(sweep, write) -> None:
    results = load([write(sweep)])
    ours, same = (sections.document_blocks(of)["score"] for of in (results, results.relative_to("triton/auto")))
    assert same == ours and "best kernelzoo variant" in ours


def test_escaped_text_stays_text() -> None:
    assert escape("a|b `c` <!-- /results --> [x](y) *z* #1 $m$ a & b") == (
        "a\\|b \\`c\\` &lt;!-- /results --&gt; \\[x\\](y) \\*z\\* \\#1 \\$m\\$ a &amp; b"
    )
    assert escape("triton/multi_row") == "triton/multi_row"
    assert escape("_x_ \\") == "\\_x\\_ \\\\"
    assert Table(["a"], [[Cell("b|c", best=True)]]).markdown() == "| a |\n| :-- |\n| **b\\|c** |"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.01"), (1.234, "1.23"), (9.996, "10.0"), (99.96, "100"), (99.94, "99.9"), (12345.6, "12346")],
)
def test_figures_have_three_digits_or_all_before_the_point(value, text) -> None:
    assert format_number(value) == text


def test_the_end_of_an_interval_of_noise_is_short() -> None:
    assert [ratio_text(value) for value in (0.5, 1.0, 123.4, 2.8e27)] == ["0.50", "1.000", "123", "3e+27"]


DOCUMENT = "# Top\n\n<!-- results:summary -->\nold\n<!-- /results -->\n\ntext <!-- results:inline --> stays\n"


def test_insert_replaces_only_what_stands_between_markers() -> None:
    text, changed = writing.insert(DOCUMENT, {"summary": "new\n\nlines"}, "README.md")
    assert text == DOCUMENT.replace("old", "new\n\nlines") and changed == ["summary"]
    assert writing.insert(text, {"summary": "new\n\nlines"}, "README.md") == (text, [])


def test_insert_fills_an_empty_block_and_several_of_one_name() -> None:
    empty, full = "<!-- results:a -->\n<!-- /results -->\n", "<!-- results:b -->\nx\n<!-- /results -->\n"
    document = empty + full + empty
    text, changed = writing.insert(document, {"a": "A", "b": "x"}, "f")
    assert text == document.replace("results:a -->\n", "results:a -->\nA\n") and changed == ["a", "a"]


def test_insert_keeps_the_line_ends_of_the_document() -> None:
    document = DOCUMENT.replace("\n", "\r\n")
    text, _ = writing.insert(document, {"summary": "new\nlines"}, "README.md")
    assert text == document.replace("old", "new\r\nlines")
    assert writing.insert(text, {"summary": "new\nlines"}, "README.md") == (text, [])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("no markers", "has no place for results"),
        ("<!-- results:summary -->\n", "close block 'summary'"),
        ("a\n<!-- /results -->\n", "line 2: <!-- /results --> closes no block"),
        (
            "<!-- results:summary -->\n<!-- results:summary -->\n<!-- /results -->\n",
            "line 2: close block 'summary' first",
        ),
        ("<!-- results:sumary -->\n<!-- /results -->\n", "hold no block 'sumary'; known: summary"),
    ],
)
def test_insert_refuses_what_it_cannot_fill(document, words) -> None:
    with pytest.raises(ResultsError) as error:
        writing.insert(document, {"summary": "x"}, "README.md")
    assert words in str(error.value) and "README.md" in str(error.value)


def test_blocks_are_named_for_what_they_hold(sweep, host, write) -> None:
    blocks = sections.document_blocks(load([write(sweep + host)]))
    scores = ["score", "spread", "worst", "shortfall", "behind", "variants"]
    tables = ["table-min-float32", "table-softmax-float32"]
    assert list(blocks) == ["environment", "summary", *scores, "host-ratios", *tables]
    assert "host-ratios" not in sections.document_blocks(load([write(sweep)]))
    assert blocks["table-softmax-float32"].count("| shape |") == 3  # H200: a short and a full one; host: one
    assert blocks["table-softmax-float32"].startswith("**NVIDIA H200, device clock**\n\n| shape |")


def test_submit_times_are_a_table_of_their_own(entry, write) -> None:
    """What the host takes to submit a call is no speed of a kernel, and never meets one in a table."""
    submit = {"clock": "submit", "submit_us": None, "ceiling_gb_per_s": None, "floor_us": None}
    calls = [
        entry("torch/softmax/eager", (64, 64), 8.0, **submit),
        entry("triton/softmax/call", (64, 64), 10.0, **submit),
    ]
    results = load([write([*calls, entry("torch/softmax/eager", us=3.0)])])
    found = sections.document_blocks(results)
    assert "| triton/softmax/call | 10.0 | 1.25 |" in found["submit"]
    assert "triton/softmax/call" not in found["summary"] + found["table-softmax-float32"]
    assert "| triton/softmax/call | 10.0 | 1.25 |" in sections.report(results, "t", {})


def test_whole_calls_are_a_table_of_their_own(entry, write) -> None:
    """Ratios to torch's own call: their mean, the worst with its problem, and each; no bytes per second."""
    call = {"clock": "call", "submit_us": 2.0, "ceiling_gb_per_s": None, "floor_us": None, "gb_per_s": None}
    shapes = ((64, 64), (4096, 256))
    calls = [entry("torch/softmax/eager", shape, 8.0, **call) for shape in shapes]
    calls += [entry("triton/softmax/auto", shape, us, **call) for shape, us in zip(shapes, (16.0, 4.0), strict=True)]
    calls.append(entry("cupy/softmax/auto", shapes[0], 2.0, **call))
    results = load([write([*calls, entry("torch/softmax/eager", us=3.0)])])
    found, report = sections.document_blocks(results), sections.report(results, "t", {})
    for text in (found["call"], report):
        assert "| triton/softmax/auto | 1.00 | 2.00 | float32 (64, 64) | 10.0 | 2.00 | 2 of 2 |" in text
        assert "| cupy/softmax/auto | 0.25 | 0.25 | float32 (64, 64) | 2.00 | 2.00 | 1 of 2; best ranked 1.00 |" in text
        assert text.index("| triton/softmax/auto | 1.00") < text.index("| cupy/softmax/auto | 0.25")
        assert "| float32 (4096, 256) | - | **0.50** |" in text
    assert "triton/softmax/auto" not in found["summary"] + found["table-softmax-float32"]
    terminal = sections.terminal_text(results)
    assert "call / torch/eager" in terminal and "0.50*" in terminal
    rates = {row["gb_per_s"] for group in rows.document(results)["groups"] for row in group["rows"]}
    assert None in rates and len(rates) == 2


def test_what_the_contract_costs_in_torch_is_said_of_its_row(entry, write) -> None:
    """A choice that is slower than torch's own function is no baseline, and says why."""
    form = "torch/softmax/renormalized"
    auto = entry("torch/softmax/auto", us=23.0, form=form)
    plain = entry("torch/min/auto", us=9.0, form="torch/min/eager")
    other = entry("triton/softmax/auto", us=5.0, form="triton/softmax/fused")
    results = load([write([entry(us=10.0), auto, plain, entry("torch/min/eager", us=9.0), other])])
    said = (
        "torch/softmax/auto chose renormalized, since torch/softmax/eager may break the contract: the ratio is the "
        "cost of the contract in torch"
    )
    assert notes.contract_slowdowns([("torch/softmax/auto", form), ("torch/min/auto", "torch/min/eager")]) == [said]
    for text in (sections.report(results, "t", {}), sections.terminal_text(results)):
        assert text.count("may break the contract") == 1 and said in text
    assert results.groups[0].select("softmax").ratio(results.groups[0].rows[1]) == 2.3
