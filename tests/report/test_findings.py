"""What checks that are no benches found: one table for each, and blocks in documents."""

import json
from pathlib import Path

import pytest

from kernelzoo.cli import main
from kernelzoo.report import ResultsError, findings

FOUND = {
    "format": "kernelzoo-checks/1",
    "command": "tests/load/run.py",
    "environment": {"device": "NVIDIA <H200>", "versions": {"python": "3.12.3", "torch": "2.11.0"}},
    "started": "2026-01-02T03:04:05+00:00",
    "seconds": 12.3,
    "rows": [
        {"implementation": "cpu/min/auto", "cases": 20000, "wrong": 0, "worst_ulp": 0.51234, "same_bits": True},
        {"implementation": "cpu/min/rows", "cases": 5, "wrong": 1, "worst_ulp": None, "reason": "a | b"},
    ],
}


def saved(folder: Path, name: str = "load.json", **changed: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(FOUND | changed), encoding="utf-8")
    return path


def test_each_row_is_a_line_and_what_is_known_a_column(tmp_path) -> None:
    block = findings.markdown_by_kind([saved(tmp_path)])["checks"]
    caption, table = block.split("\n\n")
    assert caption == "**NVIDIA &lt;H200&gt;**, 12 s; python 3.12.3, torch 2.11.0; 2026-01-02T03:04 (load.json)"
    assert table.splitlines() == [
        "| implementation | cases | wrong | worst ulp | same bits | reason |",
        "| :-- | --: | --: | --: | --: | --: |",
        "| cpu/min/auto | 20000 | 0 | 0.512 | yes | - |",
        "| cpu/min/rows | 5 | 1 | - | - | a \\| b |",
    ]


def test_files_of_a_kind_share_its_block(tmp_path) -> None:
    paths = [
        saved(tmp_path),
        saved(tmp_path, "more.json", seconds=600),
        saved(tmp_path, "x.json", format="kernelzoo-fuzz/1"),
    ]
    found = findings.markdown_by_kind(paths)
    assert list(found) == ["checks", "fuzz"]
    assert found["checks"].count("| implementation |") == 2 and "10 min" in found["checks"]


def test_a_kind_that_tells_much_shows_the_most_of_it(tmp_path) -> None:
    rows = [{"layouts": 7, "id": "cpu/min/auto", "cases": 5, "emulator": ""}]
    table = findings.markdown_by_kind([saved(tmp_path, format="kernelzoo-fuzz/1", rows=rows)])["fuzz"].split("\n\n")[1]
    assert table.splitlines()[0] == "| id | cases |"


def test_blocks_go_into_a_document(tmp_path, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- results:checks -->\n<!-- /results -->\n", encoding="utf-8")
    assert main(["report", str(saved(tmp_path)), "--insert", str(page), "--check"]) == 1
    assert "| cpu/min/auto |" not in page.read_text(encoding="utf-8")
    assert main(["report", str(saved(tmp_path)), "--insert", str(page)]) == 0
    assert main(["report", str(saved(tmp_path)), "--insert", str(page), "--check"]) == 0
    assert "| cpu/min/auto |" in page.read_text(encoding="utf-8")
    assert main(["report", str(saved(tmp_path))]) == 0
    assert "checks: NVIDIA <H200>, 12 s" in (said := capsys.readouterr().out) and "cpu/min/auto" in said


@pytest.mark.parametrize(
    "changed",
    [{"format": "kernelzoo-load/2"}, {"rows": 3}, {"environment": None}, {"seconds": "long"}, {"rows": [["a"]]}],
    ids=str,
)
def test_what_holds_no_findings_is_refused(tmp_path, capsys, changed) -> None:
    path = saved(tmp_path, **changed)
    with pytest.raises(ResultsError, match="is no record of checks"):
        findings.load(path)
    assert main(["report", str(path)]) == 2
    assert "error:" in capsys.readouterr().err


def test_what_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(ResultsError, match="can't read"):
        findings.load(tmp_path / "nothing.json")


def test_cases_under_load_are_counted_by_section_and_backend(tmp_path) -> None:
    case = {"section": "sizes", "implementation": "cupy/min/rows", "case": "one row", "count": 7, "seconds": 1.5}
    rows = [
        case | {"outcome": "passed", "figure": 8.0, "unit": "GiB"},
        case | {"outcome": "passed", "figure": 2.0, "unit": "GiB"},
        case | {"outcome": "failed", "figure": None, "unit": "", "count": 0},
        case | {"section": "memory", "outcome": "passed", "figure": -0.5, "unit": "bytes/call"},
        case | {"section": "memory", "implementation": "numba", "outcome": "no room", "figure": None, "unit": ""},
    ]
    block = findings.markdown_by_kind([saved(tmp_path, format="kernelzoo-load/1", rows=rows)])["load"]
    assert block.split("\n\n")[1].splitlines()[::2] == [
        "| section | backend | cases | passed | refused | skipped | no room | unfinished | failed | checks | seconds | "
        "most GiB | most bytes/call |",
        "| sizes | cupy | 3 | 2 | 0 | 0 | 0 | 0 | 1 | 14 | 4.5 | 8 | - |",
        "| memory | numba | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 7 | 1.5 | - | - |",
    ]


def test_minima_of_all_dtypes_share_a_line(tmp_path) -> None:
    softmax = {"id": "a/softmax/auto", "op": "softmax", "dtype": "float32", "values": 5, "wrong": 1, "worst_ulp": 0.75}
    minimum = {"id": "a/min/auto", "op": "min", "values": 5, "wrong": 0, "same_bits": True, "worst_ulp": None}
    rows = [
        softmax | {"same_bits": True},
        minimum | {"dtype": "int8"},
        minimum | {"dtype": "bool", "wrong": 2, "same_bits": False},
    ]
    block = findings.markdown_by_kind([saved(tmp_path, format="kernelzoo-accuracy/1", rows=rows)])["accuracy"]
    assert block.split("\n\n")[1].splitlines()[2:] == [
        "| a/softmax/auto | float32 | 5 | 1 | 0.75 | yes |",
        "| a/min/auto | 2 dtypes | 10 | 2 | - | no |",
    ]
