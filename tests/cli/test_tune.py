"""``kernelzoo tune`` and ``bench --first-call``, on a machine that need not have a GPU."""

import json
import statistics

import pytest
import torch

from kernelzoo.cli import main, options
from kernelzoo.cli.tune import _check_folder
from kernelzoo.measure import first_call as first
from kernelzoo.measure import planning
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import OPERATIONS
from kernelzoo.tables import Gpu

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, and so something to tune")


def test_a_backend_without_tables_is_refused(answer) -> None:
    pytest.importorskip("numba", reason="the cpu backend is written in Numba: python -m pip install '.[cpu]'")
    taking = [name for name, op in OPERATIONS.items() if {"float32", "bfloat16"} <= {*op.dtypes}]
    status, told = answer("tune", "--dry-run", "--arch", "sm_90", "--backend", "cpu")
    assert status == 2 and f"no launch table for {' or '.join(taking)} in cpu" in told["error"]


@no_gpu
@pytest.mark.parametrize("options", [("--reset",), ("--backend", "triton", "--op", "min")], ids=str)
def test_without_a_gpu_there_is_nothing_to_tune(answer, options) -> None:
    status, told = answer("tune", *options)
    assert status == 2
    assert "nothing to tune on cpu" in told["error"] and "--dry-run --arch" in told["error"]


def test_knobs_are_listed_for_a_device_that_is_not_here(monkeypatch, capsys) -> None:
    pytest.importorskip("triton")
    shapes = ((600, 8192), (1, 1), (16, 262144), (1, 2), (4096, 300), (1, 3))  # every second is kept to verify on
    monkeypatch.setattr(planning, "tuning_problems", lambda op, *_: [Problem(op, shape, "float32") for shape in shapes])
    given = ("--backend", "triton", "--op", "min", "--dtype", "float32")
    assert main(["tune", "--dry-run", "--arch", "sm_89", *given, "--json"]) == 0
    knobs = {row["name"]: row for row in json.loads(capsys.readouterr().out)["knobs"]}
    assert knobs["crowd"]["shipped"] == 4 and knobs["crowd"]["among"] == [2, 4, 8]
    assert knobs["crowd"]["id"] == "triton/min/auto" and knobs["crowd"]["problems"] == ["min-float32-16x262144"]
    assert knobs["atomic_rows"]["id"] == "triton/min/atomic_batched"  # auto does not show it
    assert knobs["short_across"]["id"] is None  # nothing here is reduced across rows


def test_a_folder_that_takes_no_file_is_found_before_the_hour_is_spent(tmp_path, monkeypatch) -> None:
    (tmp_path / "kernelzoo").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(options.OptionError, match=r"no table can be stored.*XDG_CACHE_HOME"):
        _check_folder(Gpu("NVIDIA Toy 1", "9.9", 7))


# A backend of the host's that declares a launch table: `repeats` is how often it does its work, and each of the others
# goes wrong at 2. Its times are real.
TOY = """
import os
import torch
import kernelzoo
from kernelzoo import tables
from kernelzoo.launch import LaunchStep, recording
from kernelzoo.tables import knob, launch_table

@launch_table("toy", "softmax")
class Knobs:
    repeats: int = knob(8, among=(1, 8), unit="times", why="it does its work")
    crash: int = knob(1, among=(1, 2), unit="-", why="the process dies at 2")
    wrong: int = knob(1, among=(1, 2), unit="-", why="the result is wrong at 2")

@kernelzoo.register("toy", "softmax", "auto")
def auto(x, out):
    '''All there is.'''
    knobs = tables.of(Knobs, -1)
    record = recording.get()
    if record is not None:
        return record.make_launch(LaunchStep(f"toy {tables.changed_knobs(knobs)}", (1,), 32))

    def launch():
        if knobs.crash == 2:
            os.kill(os.getpid(), 11)
        for _ in range(knobs.repeats):
            out.copy_(torch.softmax(x.transpose(1, 2), 2).transpose(1, 2))
        if knobs.wrong == 2:
            out.zero_()
    return launch
"""


def test_lanes_with_tables_of_their_own_run_in_one_race_and_a_crash_costs_its_own(tmp_path) -> None:
    file = tmp_path / "toy.py"
    file.write_text(TOY)
    problem = Problem("softmax", (64, 2048), "float32")
    tables = {
        "shipped": {}, "once": {"repeats": 1}, "crashes": {"crash": 2}, "zeros": {"wrong": 2}, "odd": {"crash": 3},
    }  # fmt: skip
    id = "toy/softmax/auto"
    with Guard("cpu", [str(file)], patience=60) as guard:
        ((shipped, once, again),) = guard.plans(id, [problem], [{}, {"repeats": 1}, {"repeats": 8}])
        assert shipped == again != once
        _, (refused,) = guard.race(problem, [f"{id}@odd"], tables={f"{id}@odd": tables["odd"]})
        assert "crash may be 1, 2; got 3" in refused["reason"], refused
        lanes = {f"{id}@{label}": values for label, values in tables.items() if label != "odd"}
        entries, failed = guard.race(problem, list(lanes), rounds=6, cache="hot", tables=lanes)
    data = {entry["extra_info"]["id"].partition("@")[2]: entry["stats"]["data"] for entry in entries}
    assert set(data) == {"shipped", "once"}
    assert statistics.median(data["once"]) < statistics.median(data["shipped"])  # an eighth of the work
    assert len({entry["extra_info"]["race"] for entry in entries}) == 1
    reasons = {failure["id"].partition("@")[2]: (failure["outcome"], failure["reason"]) for failure in failed}
    assert reasons["crashes"][0] == "failed" and "SIGSEGV" in reasons["crashes"][1]
    assert reasons["zeros"][0] == "wrong" and "elements wrong" in reasons["zeros"][1]


@pytest.fixture
def one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first, "CLASSES", {"odd rows": first.CLASSES["odd rows"]})


def test_first_calls_are_kept_in_a_file(one_class, capsys, bad, tmp_path) -> None:
    file = tmp_path / "first.json"
    given = ("--backend", "torch,bad", "--variant", "eager,leaves,zeros", "--op", "softmax", "--device", "cpu")
    arguments = ["bench", "--first-call", *given, "--module", str(bad), "-o", str(file), "--json"]
    assert main(arguments) == 1
    told = json.loads(capsys.readouterr().out)
    assert json.loads(file.read_text()) == told
    assert told["format"] == "kernelzoo-first-call/1" and told["environment"]["versions"]["torch"]
    rows = {row["id"]: row for row in told["rows"]}
    assert rows["torch/softmax/eager"]["outcome"] == "measured"
    assert rows["torch/softmax/eager"]["second_files"] == 0  # torch's own kernels come compiled
    for key in ("load_ms", "empty_ms", "stored_ms", "second_ms", "call_ms"):
        assert rows["torch/softmax/eager"][key] > 0
    assert rows["bad/softmax/leaves"]["outcome"] == "failed"
    assert "ended with status 3" in rows["bad/softmax/leaves"]["reason"]
    assert rows["bad/softmax/zeros"]["outcome"] == "wrong" and "elements wrong" in rows["bad/softmax/zeros"]["reason"]
    assert main(arguments) == 2
    assert "exists already" in capsys.readouterr().err


def test_first_calls_of_compiled_kernels_leave_them_on_disk() -> None:
    pytest.importorskip("numba")
    found = first.first_call("cpu/min/auto", "odd rows", "float32", "cpu", (), patience=120)
    assert found.outcome == "measured", found.reason
    assert found.stored_ms is not None and found.empty_ms is not None
    assert found.second_files == 0
