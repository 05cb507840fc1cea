"""The page, read as a browser's parser would read it: what it says, and that it says it safely."""

import base64
import hashlib
import itertools
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("plotly", reason="the page needs plotly: pip install 'kernelzoo[report]'")
pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")

from kernelzoo.report import load, page, page_cells, page_figures, plots
from kernelzoo.report.__main__ import FAILED, main
from kernelzoo.report.page import write_page

BAD = "<script>alert(1)</script>"
ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """The elements of a page, the text in each, and its tables by caption."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.titles: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        elif tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self.titles.append(dict(attrs).get("title") or "")

    def handle_endtag(self, tag) -> None:
        while self._open and self._open.pop() != tag:
            pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data) -> None:
        if "script" in self._open:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif "style" not in self._open:
            self.text += data
            if "caption" in self._open:
                self._caption += data
            elif "td" in self._open or "th" in self._open:
                self._rows[-1][-1] += ("\n" if self._open[-1] == "small" else "") + data

    def headings(self) -> list[str]:
        return re.findall(r"<h[1-6]>(.*?)</h[1-6]>", self.source)

    def figures(self) -> list[dict]:
        return [json.loads(text) for attributes, text in self.scripts if attributes.get("type") == "application/json"]

    def code(self) -> list[str]:
        return [text for attributes, text in self.scripts if attributes.get("type") != "application/json"]


@pytest.fixture
def made(tmp_path: Path):
    def make(results, **options) -> Page:
        path = tmp_path / "out" / "report.html"
        write_page(results, path, **{"title": "On the H200"} | options)
        return Page(path)

    return make


def test_page_holds_every_group_apart(sweep, host, entry, write, made) -> None:
    hot = [entry(cache="hot", us=3.0), entry("triton/softmax/auto", cache="hot", us=2.0)]
    submit = [entry(clock="submit", submit_us=None, ceiling_gb_per_s=None, floor_us=None)]
    page = made(load([write(sweep + host + hot + submit)]))
    assert page.headings() == [
        "On the H200",
        *("NVIDIA H200, device clock", "Measured with", "min, float32", "softmax, float32"),
        *("NVIDIA H200, device clock, hot cache", "Measured with", "softmax, float32"),
        *("Some &lt;CPU&gt; | 2 cores, wall clock", "Measured with", "softmax, float32"),
        *("NVIDIA H200, submit clock", "Measured with"),
        "How to read this",
    ]
    lines = [[trace.get("meta") for trace in figure["data"]] for figure in page.figures()]
    assert ["cpu/auto" in names for names in lines] == [False, False, False, True]
    assert lines[2].count("triton/auto") == 1 and lines[3].count("torch/eager") == 1


def test_sweep_is_drawn_twice_over_columns_with_the_limit_and_the_defaults_visible(sweep, write, made) -> None:
    results = load([write(sweep)])
    selection = results.groups[0].select("softmax", "float32")
    figure = made(results).figures()[1]
    traces = [trace for trace in figure["data"] if "meta" in trace]
    assert [trace["meta"] for trace in traces] == [name for name in selection.names for _ in range(2)]
    shown = {trace["meta"] for trace in traces if trace["visible"]}
    assert shown == {"torch/eager", "triton/auto", "cupy/auto", "numba/auto"}
    speed, share = (trace for trace in traces if trace["meta"] == "triton/auto")
    assert speed["x"] == share["x"] == list(range(256, 12673, 128))
    rows = [selection.cells[problem, "triton/auto"] for problem in selection.sweep()]
    assert speed["y"] == [row.gb_per_s for row in rows] and share["y"] == [row.of_limit for row in rows]
    assert (speed["yaxis"], share["yaxis"]) == ("y", "y2")
    layout = figure["layout"]
    assert layout["xaxis"]["type"] == layout["xaxis2"]["type"] == layout["yaxis"]["type"] == "log"
    assert layout["xaxis2"]["title"]["text"] == "columns (4096 rows)"
    assert layout["xaxis2"]["ticktext"] == ["256", "512", "1Ki", "2Ki", "4Ki", "8Ki"]
    ceiling, limit, one = (trace for trace in figure["data"] if "meta" not in trace)
    assert ceiling["y"] == [4000.0] * 3 and ceiling["text"][1] == "measured memory ceiling, 4000 GB/s"
    assert limit["y"][0] == pytest.approx(8388608 / (1e-6 + 8388608 / 4e12) / 1e9)
    assert one["y"] == [1, 1]


def test_what_a_variant_does_not_take_is_a_gap(sweep, write, made) -> None:
    figure = made(load([write(sweep)])).figures()[1]
    speeds = next(trace["y"] for trace in figure["data"] if trace.get("meta") == "triton/multi_row")
    assert all(speeds[:15]) and set(speeds[15:]) == {None}


def test_shapes_with_no_size_in_common_stand_side_by_side_short_rows_first(entry, write, made) -> None:
    shapes = ((16, 262144), (1823, 781), (1000003, 33), (7,), (8, 33, 4))
    entries = [entry(id, shape) for id in ("torch/softmax/eager", "cpu/softmax/auto") for shape in shapes]
    page = made(load([write(entries)]))
    order = ["(8, 33, 4)", "(7,)", "(1000003, 33)", "(1823, 781)", "(16, 262144)"]
    assert page.figures()[0]["layout"]["xaxis2"]["ticktext"] == order
    (heat,) = (rows for caption, rows in page.tables.items() if caption.startswith("Share of the limit"))
    assert heat[0] == ["", *order]


def test_where_no_ceiling_is_known_one_panel_is_drawn_and_the_heat_map_holds_ratios(host, write, made) -> None:
    page = made(load([write(host)]))
    (figure,) = page.figures()
    assert "yaxis2" not in figure["layout"] and len(figure["data"]) == 3
    assert page.tables["Time over that of torch/eager: implementation by shape"] == [
        ["", "(128, 256)", "(4096, 4096)"],
        ["torch/eager", "1.000", "1.000"],
        ["torch/naive", "3.00", "3.00"],
        ["cpu/auto", "1.20", "0.75"],
    ]


def test_heat_map_holds_shares_in_percent_and_the_rest_on_hover(entry, write, made) -> None:
    eager = entry(shape=(1000, 1000), us=8.0)
    fast = entry("triton/softmax/auto", (1000, 1000), 4.0, flags=["host-bound"])
    page = made(load([write([eager, fast, entry(shape=(8, 8))])]))
    (caption,) = (caption for caption in page.tables if caption.startswith("Share of the limit"))
    assert page.tables[caption][1:] == [["torch/eager", "10", "38"], ["triton/auto", "", "75"]]
    assert (
        "triton/auto on (1000, 1000): 4.00 µs, 2000 GB/s, 75% of the limit, 0.50 × torch/eager, host-bound"
        in page.titles
    )
    assert "triton/auto has no result on (8, 8)" in page.titles


def test_ratios_have_intervals_and_verdicts_where_there_are_samples(entry, write, made) -> None:
    base, fast = [10.0 + i / 100 for i in range(9)], [5.0 + i / 100 for i in range(9)]
    entries = [entry(us=10.04, data=base), entry(shape=(8, 8), us=10.0)]
    entries += [entry("triton/softmax/auto", us=5.04, data=fast), entry("triton/softmax/auto", (8, 8), us=20.0)]
    table = made(load([write(entries)])).tables["Time over that of torch/eager: 95 % interval and verdict"]
    assert table[0] == ["shape", "triton/auto"] and table[1] == ["(8, 8)", "2.00"]
    assert re.fullmatch(r"0\.50 faster\n0\.50 to 0\.5[01]", table[2][1])


def test_summary_is_that_of_the_tables(sweep, write, made) -> None:
    table = made(load([write(sweep)])).tables["softmax: the fastest first"]
    assert table[0] == ["implementation", "time / torch/eager", "of limit", "host submit, µs", "problems"]
    assert len(table) == 13 and table[1][0] == "triton/softmax/auto"
    assert next(row for row in table if row[0] == "triton/softmax/multi_row")[-1] == "16 of 100"


def test_scores_stand_open_and_gaps_closed(sweep, write, made) -> None:
    page = made(load([write(sweep)]))
    score = page.tables["softmax: share of the limit, over all problems"]
    assert score[0][:2] == ["implementation", "score"] and score[-2][0] == "best of our variants"
    assert "<summary>softmax: far from the limit</summary>" in page.source
    assert "<summary>softmax: each variant compared with the fastest of its backend</summary>" in page.source


def test_ratios_of_any_size_are_told(entry, write, made) -> None:
    page = made(load([write([entry(us=1e6), entry("a/softmax/auto", us=1.0), entry("b/softmax/auto", us=1e9)])]))
    assert [row[:2] for row in page.tables["softmax: the fastest first"][1:]] == [
        ["a/softmax/auto", "0.00"],
        ["torch/softmax/eager", "1.00"],
        ["b/softmax/auto", "1000.00"],
    ]


def test_every_result_is_in_a_table_without_empty_columns(sweep, entry, write, made) -> None:
    page = made(load([write(sweep)]))
    table = page.tables["Every result, shape by shape, the fastest first (1116)"]
    assert table[0] == [
        *("implementation", "shape", "time, µs", "GB/s", "of limit", "time / torch/eager", "host submit, µs", "samples")
    ]
    assert len(table) == 1117
    more = {"copy_us": 2.5, "first_call_ms": 3.5, "cupti_us": 9.5, "repeated_rounds": 2, "flags": ["clocks disagree"]}
    page = made(load([write([entry(**more)])]))
    table = page.tables["Every result, shape by shape, the fastest first (1)"]
    assert table[0][-5:] == ["first call, ms", "CUPTI, µs", "samples", "rounds repeated", "flags"]
    assert table[1][-5:] == ["3.50", "9.50", "50", "2", "clocks disagree"]
    assert table[1][table[0].index("plain copy, µs")] == "2.50"


def test_environment_names_what_the_figures_rest_on(entry, write, made) -> None:
    first = {"sm_mhz": 1980, "temperature_c": 41, "power_w": 123.055, "at_s": 0.0}
    state = [first, {"sm_mhz": 1980, "temperature_c": 52, "power_w": 520.507, "at_s": 9.0}]
    page = made(load([write([entry(condition=state)])]))
    for fact in (
        *("<dt>device</dt><dd>NVIDIA H200</dd>", "<dt>driver</dt><dd>580.95</dd>", "<dt>cache</dt><dd>cold</dd>"),
        *("<dt>ceiling for softmax</dt><dd>4000 GB/s</dd>", "<dt>smallest launch</dt><dd>1.00 µs</dd>"),
        *("<dt>sm</dt><dd>1980 MHz</dd>", "<dt>temperature</dt><dd>41 to 52 °C</dd>"),
        "<dt>power</dt><dd>123.1 to 520.5 W</dd>",
    ):
        assert fact in page.source
    assert "at_s" not in page.source and "<dt>at</dt>" not in page.source
    assert page.tables["Files"][1] == ["results.json", "2026-01-02 03:04", "0123456789", "sweep", "1", "50"]


def test_flags_and_repeated_rounds_are_listed_with_where(entry, write, made) -> None:
    entries = [entry(shape=(8, n), flags=["host-bound"]) for n in (8, 16)]
    entries += [entry(id, (8, 32), repeated_rounds=2) for id in ("torch/softmax/eager", "cpu/softmax/auto")]
    assert made(load([write(entries)])).tables["Flags: what to know about some results"][1:] == [
        ["2 rounds repeated", "all of softmax", "1", "float32 (8, 32)"],
        ["host-bound", "torch/softmax/eager", "2", "float32 (8, 8); float32 (8, 16)"],
    ]
    assert "Flags: what to know about some results" not in made(load([write([entry()])])).tables


def test_what_has_no_result_is_listed_with_why_the_worst_first(entry, write, failure, made) -> None:
    wrong = failure(id="mine/softmax/x", outcome="wrong", reason="off " * 1000)
    ours = {"format": 1, "failed": [failure(), wrong, failure(shape=[8, 5])]}
    first, second = made(load([write([entry()], ours=ours)])).tables["Without a result, and why"][1:]
    assert first[:3] == ["mine/softmax/x", "wrong", "float32 (8, 1048576)"]
    assert first[3].startswith("off off") and len(first[3]) < 1010
    assert second[2:] == [
        "float32 (8, 5); float32 (8, 1048576)",
        "holds a row in registers; use online",
        "results.json",
    ]


def test_what_breaks_the_contract_is_marked_wherever_it_has_a_time(entry, write, made) -> None:
    broken = entry("rival/softmax/library", us=8.0, of_limit=0.5, breaks="NaN is dropped")
    submit = entry("rival/softmax/library", us=3.0, clock="submit", breaks="NaN is dropped")
    page = made(load([write([entry(of_limit=0.4), broken, entry(clock="submit"), submit])]))
    marked = "rival/softmax/library †", "rival/library †"
    for caption, rows in page.tables.items():
        named = [cell for row in rows for cell in row if cell.startswith("rival/")]
        if named and not caption.startswith(("Timed although", "Time over", "softmax: each variant")):
            assert set(named) <= set(marked), (caption, named)
    assert page.tables["Timed although it breaks the contract"][1:] == [
        ["rival/softmax/library", "2", "NaN is dropped"]
    ]
    assert "Timed although it breaks the contract" in page.headings()


def test_the_form_that_auto_chose_is_named_where_the_file_knows_it(entry, write, made) -> None:
    """A file without forms, as older ones are, has no such column."""
    caption = "Every result, shape by shape, the fastest first (2)"
    chosen = entry("triton/softmax/auto", us=8.0, form="triton/softmax/split_ring")
    head, auto, eager = made(load([write([entry(form="torch/softmax/eager"), chosen])])).tables[caption]
    assert head[1] == "form" and (auto[:2], eager[:2]) == (["triton/auto", "split_ring"], ["torch/eager", ""])
    plain = made(load([write([entry(), entry("triton/softmax/auto", us=8.0)])])).tables[caption]
    assert "form" not in plain[0]


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "bench" / "results").glob("*.json.gz")))
def test_committed_results_have_a_page_each(name: str, made) -> None:
    assert made(load([ROOT / "bench" / "results" / name])).tables


def test_comparison_says_what_changed_and_what_else_differs(entry, write, made) -> None:
    def run(name, date, driver, *times):
        versions = {"torch": "2.11.0", "driver": driver}
        rows = [entry(id, shape, us, data=[us] * 9, versions=versions) for id, shape, us in times]
        return load([write(rows, name, date)])

    fast = "triton/softmax/auto"
    eager = [("torch/softmax/eager", (8, n), 10.0) for n in (8, 16, 32)]
    old = run(
        "old.json",
        "2025-12-24T00:00:00",
        "570",
        *eager,
        (fast, (8, 8), 5.0),
        (fast, (8, 16), 5.0),
        (fast, (8, 64), 5.0),
    )
    new = run(
        "new.json",
        "2026-01-01T00:00:00",
        "580",
        *eager,
        (fast, (8, 8), 8.0),
        (fast, (8, 16), 4.0),
        (fast, (8, 32), 5.0),
    )
    page = made(new, against=old)
    assert page.tables["Summary"] == [
        ["operation", "compared", "slower", "faster", "same", "unclear", "now / before", "torch/eager alone"],
        ["softmax", "5", "1", "1", "3", "0", "1.051", "1.000"],
    ]
    verdicts = ["5.00", "8.00", "1.60", "1.60 to 1.60", "slower", "1.60"]
    assert page.tables["Slower: 1"][1:] == [[fast, "float32 (8, 8)", *verdicts]]
    assert [row[1] for row in page.tables["Faster: 1"][1:]] == ["float32 (8, 16)"]
    everything = page.tables["Every comparison, the worst slowdown first (5)"]
    assert [row[4] for row in everything[1:]] == ["1.60", "1.000", "1.000", "1.000", "0.80"]
    assert page.tables["What differs between the two runs"][1:] == [
        ["file", "old.json", "new.json"],
        ["measured", "2025-12-24 00:00", "2026-01-01 00:00"],
        ["driver", "570", "580"],
    ]
    assert "<summary>Only in the newer results: 1</summary>" in page.source
    assert f"<dt>{fast}</dt><dd>float32 (8, 64)</dd>" in page.source
    assert "What changed" in page.headings() and "What changed" not in made(new).headings()


def test_comparison_with_nothing_in_common_says_so(entry, host, write, made) -> None:
    page = made(load([write([entry()])]), against=load([write(host, "old.json")]))
    assert "nothing can be compared" in page.text
    assert "NVIDIA H200, device clock: only in the newer results" in page.text
    assert "Some <CPU> | 2 cores, wall clock: only in the older results" in page.text


def test_every_text_is_escaped(entry, write, failure, made) -> None:
    link = '"><img src=x onerror=alert(1)><a href="javascript:alert(1)">'
    told = {"device": BAD, "clock_detail": link, "shape_set": link, "versions": {BAD: link}, "flags": [BAD, link]}
    told["condition"] = {BAD: link}
    ours = {"format": 1, "failed": [failure(reason=BAD + link)]}
    results = load(
        [write([entry(**told), entry("triton/softmax/auto", **told)], f"a{link.replace('/', '')}.json", ours=ours)]
    )
    page = made(results, title=BAD, against=results)
    assert {tag for tag, _ in page.elements} & {"img"} == set()
    assert all(href is None or href.startswith("#") for _, attrs in page.elements for href in [attrs.get("href")])
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert len(page.code()) == 2 and "alert(1)" not in "".join(page.code()[1:])
    assert page.headings()[0] == "&lt;script&gt;alert(1)&lt;/script&gt;" and BAD in page.text and link in page.text
    assert not any("<" in text for attributes, text in page.scripts if attributes.get("type") == "application/json")
    (hover,) = {trace["customdata"][0] for trace in page.figures()[0]["data"] if trace.get("meta") == "torch/eager"}
    assert "&lt;script&gt;" in hover and "<a" not in hover and "<img" not in hover


def test_nothing_is_fetched_and_no_other_script_may_run(sweep, write, made) -> None:
    page = made(load([write(sweep)]))
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "data", "action", "poster", "background"} & set(attributes), (tag, attributes)
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
    styles = re.findall(r"<style>(.*?)</style>", page.source, re.DOTALL)
    assert not any(re.search(r"url\(|@import", style) for style in styles)
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.code()]
    assert policy.split("; ")[:2] == ["default-src 'none'", "script-src" + "".join(f" 'sha256-{h}'" for h in hashes)]


def test_plotly_is_there_once_whatever_the_number_of_figures(sweep, write, made) -> None:
    page = made(load([write(sweep)]))
    assert len(page.figures()) == 2
    assert page.source.count("* plotly.js v") == 1 and len(page.source) < 7e6


def test_the_same_results_give_the_same_page(host, write, made) -> None:
    results = load([write(host)])
    assert made(results).source == made(results).source


def test_page_can_be_read_without_seeing_it(sweep, write, made) -> None:
    page = made(load([write(sweep)]))
    by_tag: dict[str, list[dict[str, str | None]]] = {}
    for tag, attributes in page.elements:
        by_tag.setdefault(tag, []).append(attributes)
    assert by_tag["html"] == [{"lang": "en"}] and len(by_tag["h1"]) == len(by_tag["main"]) == 1
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in by_tag["meta"]
    assert len(by_tag["table"]) == len(by_tag["caption"]) and all(page.tables)
    images = [attrs for _, attrs in page.elements if attrs.get("role") == "img"]
    assert len(images) == 2 and all("a line for each of" in attrs["aria-label"] for attrs in images)
    assert all("aria-pressed" in attrs or "data-choice" in attrs for attrs in by_tag["button"])
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids)) and {a["href"] for a in by_tag["a"]} == {f"#{id}" for id in ids}


# Contrast, after WCAG 2: 3 for what is drawn, 4.5 for text.


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


CSS = Path(page.__file__).with_name("page.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"(--\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)


def test_every_line_stands_out_from_the_page_light_and_dark() -> None:
    for shades in (*plots.COLOURS.values(), *plots.SPARE_COLOURS):
        assert all(contrast(shade, theme["--page"]) >= 3 for shade in shades for theme in (LIGHT, DARK))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_stands_out_from_the_page_light_and_dark(theme) -> None:
    for ground in ("--page", "--panel"):
        for text in ("--text", "--quiet", "--link", "--faster", "--slower"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)


def test_black_is_readable_on_every_shade() -> None:
    shares = [page_cells.mix(page_cells.WORST, page_cells.BEST, i / 20) for i in range(21)]
    ratios = [page_cells.ratio_shade(2 ** (i / 4)) for i in range(-16, 17)]
    assert all(contrast(shade, "#000000") >= 4.5 for shade in shares + ratios)


def test_an_implementation_looks_the_same_everywhere_and_like_no_sibling(sweep, write) -> None:
    rows = load([write(sweep)]).groups[0].rows
    looks = plots.styles(rows)
    assert looks == plots.styles(tuple(reversed(rows)))
    for one, other in itertools.combinations(looks, 2):
        same_op = one.split("/")[1] == other.split("/")[1]
        assert not same_op or looks[one] != looks[other], (one, other)
    assert looks["torch/softmax/eager"].dash == looks["triton/min/auto"].dash == "solid"


def test_backends_from_other_packages_get_colours_of_their_own(entry, write) -> None:
    ids = [f"{backend}/softmax/auto" for backend in ("torch", "triton", "mine", "other")]
    looks = plots.styles(load([write([entry(id) for id in ids])]).groups[0].rows)
    assert len({look.colour for look in looks.values()}) == 4


def test_the_legend_knows_every_dash_and_marker() -> None:
    assert set(page_figures.DASHES) == set(plots.DASHES) and set(page_figures.SYMBOLS) == set(plots.SYMBOLS)


def test_shown_at_first_is_all_where_there_is_no_auto(entry, write) -> None:
    names = ["torch/eager", "torch/naive", "triton/fused"]
    entries = [entry(name.replace("/", "/softmax/")) for name in names]
    assert page_figures.shown(load([write(entries)]).groups[0].select("softmax")) == names


# The command.


def test_command_writes_the_page_and_what_changed(host, entry, write, tmp_path: Path, capsys) -> None:
    out = tmp_path / "new" / "report.HTML"
    old = write(host, "old.json", "2025-01-01")
    arguments = [str(write(host)), "-o", str(out), "--against", str(old), "--baseline", "cpu/auto", "--title", "T & t"]
    assert main(arguments) == 0
    assert f"{out} written" in capsys.readouterr().out
    page = Page(out)
    assert page.headings()[:2] == ["T &amp; t", "What changed"] and "time / cpu/auto" in page.text
    assert [path.name for path in out.parent.iterdir()] == ["report.HTML"]


def test_command_compares_the_variants_that_are_shown_alone(host, entry, write, tmp_path: Path) -> None:
    gone = {key: host[0]["extra_info"][key] for key in ("device", "clock", "clock_detail")}
    old = write([*host, entry("cpu/softmax/gone", **gone)], "old.json")
    arguments = [str(write(host)), "-o", str(tmp_path / "r.html"), "--against", str(old)]
    assert main(arguments) == 0
    assert "Only in the older results: 1" in Page(tmp_path / "r.html").text
    assert main([*arguments, "--variant", "auto,eager"]) == 0
    page = Page(tmp_path / "r.html")
    assert "What changed" in page.text and "Only in the older" not in page.text and "naive" not in page.text


def test_command_refuses_what_only_a_page_can_do(host, write, tmp_path: Path, capsys) -> None:
    for output in ([], ["-o", str(tmp_path / "folder")]):
        with pytest.raises(SystemExit) as exit:
            main([str(write(host)), "--against", str(write(host)), *output])
        assert exit.value.code == 2 and "-o PAGE.html" in capsys.readouterr().err
    assert main([str(write(host)), "--baseline", "cpu/fast", "-o", str(tmp_path / "r.html")]) == FAILED
    assert "no results of 'cpu/fast' to take ratios to" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_without_plotly_the_remedy_is_named(host, write, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.delitem(sys.modules, "kernelzoo.report.page")
    assert main([str(write(host)), "-o", str(tmp_path / "r.html")]) == FAILED
    assert "pip install 'kernelzoo[report]'" in capsys.readouterr().err
