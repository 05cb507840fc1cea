"""The energy of a launch in a report: beside the time, by the bytes, and to the baseline's."""

import json
from pathlib import Path

import pytest
from scripts import loaded

from kernelzoo.cli import main
from kernelzoo.report import load, sections
from kernelzoo.report.result_tables import summary_table
from kernelzoo.report.results import ResultsError

COUNTED = {"launch_mj": 4.0, "launches": 40_000, "span_ms": 400.0, "launch_us": 10.0, "step_ms": 100.0, "step_mj": 4e4}


def with_energy(mj: float, **more: float) -> dict[str, dict[str, float]]:
    return {"energy": COUNTED | {"launch_mj": mj} | more}


@pytest.fixture
def rows(entry):
    shapes = ((64, 1024), (128, 1024))
    made = [entry(shape=shape, us=10.0, **with_energy(4.0)) for shape in shapes]
    made += [
        entry("triton/softmax/auto", shape, us=5.0, **with_energy(mj))
        for shape, mj in zip(shapes, (1.0, 4.0), strict=True)
    ]
    return [*made, entry("cupy/softmax/auto", shapes[0], flags=["no energy: the counter did not move in 1 s"])]


def test_a_summary_has_the_energy_to_the_baseline_s_and_by_the_bytes(rows, write) -> None:
    results = load([write(rows)])
    table = summary_table(results.groups[0].select("softmax"))
    lines = {line[0].text: [cell.text for cell in line] for line in table.rows}
    at = table.headers.index("energy / torch/eager")
    assert table.headers[at + 1] == "J/GB"
    # 64 rows of 1024 float32, read and written: 0.524 MB; 4 mJ by that are 7.63 J/GB, and half for twice the rows.
    assert lines["torch/softmax/eager"][at : at + 2] == ["1.00", "5.39"]
    assert lines["triton/softmax/auto"][at : at + 2] == ["0.50", "2.70"]
    assert lines["cupy/softmax/auto"][at : at + 2] == ["-", "-"]


def test_without_energy_there_is_no_column(entry, write) -> None:
    results = load([write([entry(), entry("triton/softmax/auto", energy=None)])])
    assert "J/GB" not in summary_table(results.groups[0].select("softmax")).headers
    assert "NVML" not in sections.report(results, "x", {}) + sections.terminal_text(results)


def test_the_counter_s_resolution_stands_below_the_table(rows, write) -> None:
    results = load([write(rows)])
    said = sections.terminal_text(results)
    for text in (sections.report(results, "x", {}), said, sections.document_blocks(results)["summary"]):
        assert "moves every 100 ms, by 40000 mJ (medians). A span of launches is at least 400 ms" in text
        assert "and one step at most 25% of it" in text
        assert "the whole GPU's, idle power included" in text


def test_as_json_each_row_has_all_that_was_counted(rows, write, capsys) -> None:
    assert main(["report", str(write(rows)), "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    told = {(row["id"], row["shape"][0]): row for row in group["rows"]}
    assert told["triton/softmax/auto", 64]["energy"] == COUNTED | {"launch_mj": 1.0}
    assert told["triton/softmax/auto", 64]["energy_ratio"] == 0.25
    assert told["cupy/softmax/auto", 64]["energy"] is told["cupy/softmax/auto", 64]["energy_ratio"] is None
    assert {row["id"]: row["energy_ratio"] for row in group["summary"]}["triton/softmax/auto"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "energy",
    [{"launch_mj": 1.0}, COUNTED | {"launch_mj": 0.0}, COUNTED | {"launches": 1.5}, COUNTED | {"step_ms": "x"}, 3],
)
def test_energy_that_no_bench_wrote_is_refused(entry, write, energy) -> None:
    with pytest.raises(ResultsError, match="energy"):
        load([write([entry(energy=energy)])])


@pytest.fixture
def agreement():
    return loaded(Path(__file__).parents[2] / "bench" / "energy.py").main


def test_two_runs_are_compared_row_by_row(entry, write, agreement, capsys) -> None:
    first = [entry(shape=(64, n), **with_energy(4.0)) for n in (1024, 2048)]
    first += [entry("triton/softmax/auto", (64, 1024), us=10.0, **with_energy(2.0)), entry(shape=(8, 8))]
    again = [entry(shape=(64, n), **with_energy(mj)) for n, mj in ((1024, 4.0), (2048, 3.8))]
    again += [entry("triton/softmax/auto", (64, 1024), us=11.0, **with_energy(2.1)), entry(shape=(8, 8))]
    paths = [str(write(first, "first.json")), str(write(again, "again.json"))]
    assert agreement(paths) == 0
    said = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[1:6] for line in said.splitlines() if line.startswith(("t", "all"))}
    assert lines["torch/softmax/eager"] == ["2", "0.975", "0.950", "1.000", "1.000"]
    assert lines["triton/softmax/auto"] == ["1", "1.050", "1.050", "1.050", "1.100"]
    assert lines["all"][:4] == ["3", "1.000", "0.950", "1.050"]
    assert "float32 (64, 2048)" in said and "every 100 ms, by 40000 mJ" in said
    assert said.endswith("3 rows, 0 further apart than 10%\n")
    assert agreement([*paths, "--allowed", "0.051"]) == 1
    assert capsys.readouterr().out.endswith("3 rows, 1 further apart than 5%\n")


def test_runs_of_two_devices_are_not_compared(entry, write, agreement, capsys) -> None:
    one = write([entry(**with_energy(4.0))], "one.json")
    other = write([entry(**with_energy(4.0), device="another")], "other.json")
    assert agreement([str(one), str(other)]) == 2
    assert "no row of both" in capsys.readouterr().err
