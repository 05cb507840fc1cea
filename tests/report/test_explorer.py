"""What the page's explorer draws, as data: what the tables would say, and what is packed because it is large."""

import html
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")

from kernelzoo.report import compare, explorer, load
from kernelzoo.report.results import ResultsError
from kernelzoo.report.table import format_number, ratio_text

pytestmark = pytest.mark.slow

BAD = "<script>alert(1)</script>"
ROOT = Path(__file__).parents[2]


def test_page_holds_every_group_apart(sweep, host, entry, write, made) -> None:
    hot = [entry(cache="hot", us=3.0), entry("triton/softmax/auto", cache="hot", us=2.0)]
    submit = [entry(clock="submit", submit_us=None, ceiling_gb_per_s=None, floor_us=None)]
    page = made(load([write(sweep + host + hot + submit)]))
    labels = ["NVIDIA H200, device clock", "NVIDIA H200, device clock, hot cache", "Some <CPU> | 2 cores, wall clock"]
    told = [html.unescape(heading) for heading in page.headings()]
    assert [heading for heading in told if "clock" in heading] == [*labels, "NVIDIA H200, submit clock"]
    groups = page.data()["groups"]
    assert [group["label"] for group in groups] == labels
    subjects = [[(subject["op"], subject["dtype"]) for subject in group["subjects"]] for group in groups]
    softmax = ("softmax", "float32")
    assert subjects == [[("min", "float32"), softmax], [softmax], [softmax]]
    assert ["cpu/auto" in subject["names"] for subject in page.subjects()] == [False, False, False, True]
    ids = [group["id"] for group in groups]
    assert ids == ["nvidia-h200-device-clock", "nvidia-h200-device-clock-hot-cache", "some-cpu-2-cores-wall-clock"]


def test_the_explorer_holds_what_the_tables_would_say(sweep, entry, write, made) -> None:
    results = load([write([*sweep, entry("triton/softmax/auto", (7, 7), data=[5.0] * 9, form="triton/softmax/fused")])])
    selection = results.groups[0].select("softmax", "float32")
    comparisons = compare.compare_to_baseline(selection)
    page = made(results)
    rows = page.rows(1)
    assert len(rows) == len(selection.rows) and page.subjects()[1]["names"] == selection.names
    problems = {str(problem): problem for problem in selection.problems}
    for told in rows:
        row = selection.rows_by_cell[problems[told["problem"]], told["name"]]
        comparison = comparisons.get((row.problem, row.name))
        ratio = selection.ratio(row) if comparison is None else comparison.ratio
        assert (told["us"], told["speed"]) == (format_number(row.microseconds), format_number(row.gb_per_s))
        assert told["shareText"] == f"{row.of_limit:.0%}" and told["share"] == pytest.approx(row.of_limit, rel=1e-3)
        assert told["ratioText"] == ("" if ratio is None else ratio_text(ratio))
        assert (told["form"] or "") == row.chosen_form
    subject = page.subjects()[1]
    assert (subject["ceiling"], subject["floor"], subject["withLimit"]) == (4000.0, 1.0, True)
    assert [subject["names"][i] for i in subject["lead"]] == ["torch/eager", "cupy/auto", "numba/auto", "triton/auto"]


def test_intervals_and_verdicts_come_with_the_samples_and_pairs_too(entry, write, made) -> None:
    base, fast = [10.0 + i / 100 for i in range(9)], [5.0 + i / 100 for i in range(9)]
    entries = [entry(us=10.04, data=base), entry(shape=(8, 8), us=10.0)]
    entries += [entry("triton/softmax/auto", us=5.04, data=fast), entry("triton/softmax/auto", (8, 8), us=20.0)]
    entries += [entry("cupy/softmax/auto", us=10.04, data=base, flags=["disturbed"])]
    page = made(load([write(entries)]))
    told = {(row["name"], row["problem"]): row for row in page.rows()}
    sampled, plain = told["triton/auto", "(4096, 256)"], told["triton/auto", "(8, 8)"]
    assert sampled["verdict"] == "faster" and re.fullmatch(r"0\.50 to 0\.5[01]", sampled["interval"])
    assert 0 < sampled["low"] <= sampled["ratio"] <= sampled["high"] < 1
    assert (plain["ratioText"], plain["interval"], plain["verdict"], plain["low"]) == ("2.00", "", "", 0)
    disturbed = told["cupy/auto", "(4096, 256)"]
    assert (disturbed["ratioText"], disturbed["verdict"], disturbed["marks"]) == ("1.000 ~", "unclear", "~")
    names, problems = page.subjects()[0]["names"], page.subjects()[0]["problems"]
    ((pair, told),) = page.subjects()[0]["pairs"].items()
    assert [names[int(place)] for place in pair.split()] == ["cupy/auto", "triton/auto"]
    assert [problem[0] for problem in problems] == ["(8, 8)", "(4096, 256)"]
    assert told[0] == ""  # no samples, no interval
    assert re.fullmatch(r"1\.99,1\.9\d,(1\.99|2\.0\d),3,~", told[1]) and explorer.VERDICTS[3] == "unclear"


def test_shapes_stand_short_rows_first_with_their_bytes_kinds_and_options(entry, write, made) -> None:
    shapes = ((16, 262144), (1823, 781), (1000003, 33), (7,), (8, 33, 4))
    entries = [entry(shape=shape, **({"dim": 1} if len(shape) == 3 else {})) for shape in shapes]
    problems = made(load([write(entries)])).subjects()[0]["problems"]
    assert [problem[0] for problem in problems] == [
        *("(7,)", "(8, 33, 4) dim 1", "(1000003, 33)", "(1823, 781)", "(16, 262144)")
    ]
    assert problems[1][1:] == [8 * 33 * 4 * 8, 33, "--shape 8x33x4 --dtype float32 --dim 1", ["short", "odd", "axis"]]
    assert problems[-1][4] == ["long", "even"]


def test_what_a_profiler_counted_stands_with_its_result(entry, write, made, tmp_path) -> None:
    path = tmp_path / "profile.json"
    counted = {"id": "triton/softmax/auto", "problem": "float32 (4096, 256)", "registers": 40.0, "kernel": BAD}
    record = {"format": "kernelzoo-profile/1", "environment": {"device": "NVIDIA H200"}, "rows": [counted]}
    path.write_text(json.dumps(record))
    page = made(load([write([entry(), entry("triton/softmax/auto")]), path]))
    assert page.subjects()[0]["counters"] == {"1 0": [["registers", "40"], ["kernel", BAD]]}
    other = record | {"environment": {"device": "another"}}
    path.write_text(json.dumps(other))
    assert made(load([write([entry()]), path])).subjects()[0]["counters"] == {}
    with pytest.raises(ResultsError, match="have no times to report"):
        load([path])
    path.write_text(json.dumps(record | {"rows": [{}]}))
    with pytest.raises(ResultsError, match="no record of bench/counters"):
        load([write([entry()]), path])


def test_a_form_of_ours_has_its_source_and_another_s_has_none(entry, write, made) -> None:
    rows = [entry(), entry("triton/softmax/auto", form="triton/softmax/fused"), entry("rival/softmax/library")]
    rows.append(entry("cupy/softmax/auto", form="cupy/softmax/fused"))
    page = made(load([write(rows)]))
    folder = "kernelzoo/kernels"
    assert page.data()["sources"] == {
        "torch/softmax/eager": [f"{folder}/torch/softmax/eager.py"],
        "triton/softmax/fused": [f"{folder}/triton/softmax/fused.py"],
        "cupy/softmax/fused": [f"{folder}/cupy/softmax/fused.py", f"{folder}/cupy/softmax/fused.cu"],
    }
    paths = sorted(path for paths in page.data()["sources"].values() for path in paths)
    texts = page.data()["texts"]
    assert sorted(texts) == paths and all((ROOT / path).read_text("utf-8") == texts[path] for path in paths)


def test_what_others_wrote_is_not_put_into_a_page(tmp_path, monkeypatch) -> None:
    """Installed beside kernelzoo, as another distribution is."""
    beside = explorer.ROOT / "theirs" / "softmax" / "fused.py"
    monkeypatch.setattr(explorer.packages, "files", lambda id: (beside,))
    assert explorer.source_paths("theirs/softmax/fused") == []


def test_every_two_are_compared_not_only_those_shown_at_first(entry, write, made) -> None:
    ids = ["torch/softmax/eager", *(f"triton/softmax/{name}" for name in ("auto", "fused", "online", "split"))]
    rows = [entry(id, data=[5.0 + i + j / 100 for j in range(9)]) for i, id in enumerate(ids)]
    results = load([write([*rows, entry("min/min/auto"), entry("call/softmax/auto", clock="call")])])
    page = made(results)
    names = page.subjects()[1]["names"]
    first, found = (subject["pairs"] for subject in page.subjects())  # of whole calls there is no figure
    assert first == {}
    selection = results.groups[0].select("softmax", "float32")
    assert len(found) == 6  # of four, without the baseline, which stands in each row
    for pair, (told,) in found.items():
        one, other = (selection.rows_by_cell[selection.problems[0], names[int(place)]] for place in pair.split())
        comparison = compare.compare(one, other)
        middle, low, high, verdict, marks = told.split(",")
        assert (middle, marks) == (ratio_text(comparison.ratio), "")
        assert f"{low} to {high}" == comparison.interval_text
        assert explorer.VERDICTS[int(verdict)] == comparison.verdict.value


def test_the_energy_of_a_launch_stands_with_its_result(entry, write, made) -> None:
    told = {"launches": 40_000, "span_ms": 400.0, "launch_us": 10.0, "step_ms": 100.0, "step_mj": 4e4}
    rows = [entry(energy=told | {"launch_mj": 4.0}), entry("triton/softmax/auto", energy=told | {"launch_mj": 1.5})]
    first, second, third = made(load([write([*rows, entry("cupy/softmax/auto")])])).rows()
    # 4096 rows of 256 float32, read and written: 8.39 MB.
    assert (first["mj"], first["perGb"], first["energyRatio"], first["watts"]) == ("4.00", "0.477", "1.000", "400")
    assert [second[name] for name in ("name", "mj", "energyRatio")] == ["cupy/auto", "", ""]
    assert [third[name] for name in ("mj", "perGb", "energyRatio", "watts")] == ["1.50", "0.179", "0.38", "150"]
