"""Tables at four widths of a terminal, as in tables-WIDTH.txt; ``python tests/cli/test_widths.py`` writes them."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import pytest

from kernelzoo.cli import accuracy, bench, compare, output, rows, tune_tables
from kernelzoo.cli.against import RowChange
from kernelzoo.measure.first_call import FirstCall
from kernelzoo.measure.statistics import Interval
from kernelzoo.measure.tuning import Trial, TuningOutcome
from kernelzoo.report import load, sections
from kernelzoo.terminal import lay_out_table

WIDTHS = (60, 80, 100, 160)
FOLDER = Path(__file__).parent
RESULTS = FOLDER.parents[1] / "bench" / "results"

IDS = {
    "cupy/softmax/auto": ("cupy/softmax/split_cluster", 12.3, ["host-bound", "disturbed"], None),
    "quack/softmax/library": (None, 14.0, ["breaks the contract"], "NaN for the largest values"),
    "torch/softmax/eager": (None, 98.76, ["disturbed"], None),
    "triton/softmax/columns_two_launches": (None, 1234.5, ["clocks disagree"], None),
}


def problem() -> dict[str, Any]:
    found = []
    for id, (form, us, flags, breaks) in IDS.items():
        row = {"id": id, "form": form, "outcome": "measured", "median_us": us, "interval_us": [us * 0.9, us * 1.1]}
        row |= {"gb_per_s": 4e4 / us, "of_limit": 9 / us, "ratio": us / 98.76, "verdict": "FASTER"}
        row |= {"ratio_interval": [us / 100, us / 97], "submit_us": 5.4, "first_call_ms": 810.0}
        found.append(row | {"flags": flags, "breaks": breaks, "cupti_us": None, "samples": 15})
    found[2]["verdict"], found[3]["verdict"] = None, "SLOWER"
    described = {"problem": "softmax-bfloat16-16x262144", "baseline": "torch/softmax/eager", "repeated_rounds": 15}
    described |= {"device": "NVIDIA H200", "clock": "device", "clock_detail": "CUDA graph between events"}
    return {**described, "rows": found}


def show_compared() -> None:
    tables = rows.Tables(full=True)
    tables.show(problem())
    held = [
        RowChange("cupy/softmax/auto", "softmax-bfloat16-16x262144", 1.02, (0.99, 1.05)),
        RowChange("torch/softmax/eager", "softmax-bfloat16-16x262144", refusal="the file has no such row"),
    ]
    output.show(output.console(), compare._table(held))


def show_benched() -> None:
    tables = rows.Tables()
    tables.show(problem())
    tables.show(problem() | {"problem": "softmax-float32-1x1"})
    tables.print_marks_summary()


def show_accuracy() -> None:
    row = {"op": "softmax", "dtype": "bfloat16", "values": 1e8, "wrong": 0, "same_bits": True, "unavailable": ""}
    row |= {"worst_ulp": 0.5, "allowed_ulp_there": 0.948, "worst_family": "equal below one", "worst_length": 4097}
    row |= {"worst_dim": 0, "mean_ulp": 0.23, "p9999_ulp": 0.5, "worst_subnormal_ulp": 8341578.0}
    accuracy._print([row | {"id": "triton/softmax/columns_two_launches"}], 1)


def show_first_calls() -> None:
    times = {"load_ms": 1.0, "empty_ms": 812.0, "stored_ms": 33.3, "second_ms": 2.0, "second_files": 0, "call_ms": 1.0}
    call = ("triton/softmax/columns_two_launches", "odd rows", "float32", "1823x781", "1823x783", "measured")
    bench._show_first_calls([FirstCall(*call, **times)])


def show_tuned() -> None:
    knob = {"name": "span_elements", "shipped": 4096, "among": [2048, 4096, 8192], "unit": "elements"}
    one = {"backend": "triton", "op": "min", "knobs": [knob | {"why": "of a long row that one block takes at least"}]}
    outcome = TuningOutcome("triton", "min", {"span_elements": 8192}, seconds=61.0)
    ratio = Interval(0.93, 0.92, 0.94)
    where = ("triton/min/auto", ("min-float32-72x16384",))
    outcome.trials = [
        Trial("span_elements", 8192, 4096, *where, ratio, 1.01, "faster", taken=True),
        Trial("span_elements", 2048, 4096, *where, ratio, 1.08, "faster", reason="a problem is 8.0% slower"),
    ]
    tune_tables.print_trials(one, outcome)
    ids = ["min-float32-72x16384", "min-float32-142x262144", "min-float32-1000003x33-dim0"]
    site = {"id": "triton/min/auto", "affected": 40, "problems": ids}
    listed = [{"backend": "triton", "op": "min", **one["knobs"][0], **site}]
    tune_tables.print_knobs(listed, "sm_89", 15, 30.0, {"numba": "torch sees no CUDA device"}, json=False)


def show_reported() -> None:
    results = load([RESULTS / "h200-dtypes.json.gz"])
    group = results.groups[0]
    wall = type(group)("a host", "wall", "cold", tuple(row for row in group.rows if row.op == "min"), 0)
    print(sections.terminal_text(type(results)((wall,)), int(os.environ["COLUMNS"])))


SHOWN = {
    "compare": show_compared, "bench": show_benched, "accuracy": show_accuracy,
    "bench --first-call": show_first_calls, "tune": show_tuned, "report": show_reported,
}  # fmt: skip


def shown() -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for name, show in SHOWN.items():
            print(f"$ kernelzoo {name}")
            show()
            print()
    return said.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_at_this_width(width, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = shown()
    assert text == (FOLDER / f"tables-{width}.txt").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= width
    assert all(f"{id} " in text for id in IDS)
    assert "…" not in text


def test_what_can_t_fit_is_shown_in_blocks() -> None:
    rows = [["a" * 30, "1", "2", "because it is so"], ["b", "3", "", ""]]
    fitted = lay_out_table(["name", "value", "spare", "why"], rows, 20)
    assert fitted.head == [] and fitted.notes == []
    assert fitted.rows == [["a" * 30, "  value  1", "  spare  2", "  why    because it is so"], ["b", "  value  3"]]


if __name__ == "__main__":
    for columns in WIDTHS:
        os.environ["COLUMNS"] = str(columns)
        (FOLDER / f"tables-{columns}.txt").write_text(shown(), encoding="utf-8")


def test_what_the_contract_costs_is_said_once(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    tables, found = rows.Tables(), problem()
    found["rows"][2] |= {"id": "torch/softmax/auto", "form": "torch/softmax/renormalized"}
    tables.show(found)
    tables.show(found)
    assert capsys.readouterr().out.count("torch/softmax/auto chose renormalized, since torch/softmax/eager may") == 1


def test_what_is_unclear_for_one_reason_is_said_once(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    found = problem()
    for row, why in zip(found["rows"], ("few", "few", "", "noise"), strict=True):
        row |= {"unclear": why, "flags": []}
    rows.Tables().show(found)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("UNCLEAR")]
    assert said == ["UNCLEAR, 2 rows: few", "UNCLEAR, triton/softmax/columns_two_launches: noise"]
