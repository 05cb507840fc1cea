"""``kernelzoo fuzz``: what it prints can be pasted, its record is whole, and what breaks a process costs one case."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import kernelzoo
from kernelzoo.check import fuzz
from kernelzoo.cli import fuzz as command
from kernelzoo.measure.guard import Guard
from kernelzoo.operations import BUILT_IN

KERNELS = """
import os
import torch
import kernelzoo

@kernelzoo.register("mine", "min", "right")
def right(x, out):
    return lambda: (out.copy_(x.amin(1)), None)[1]

@kernelzoo.register("mine", "min", "first")
def first(x, out):
    return lambda: (out.copy_(x[:, :16].amin(1)), None)[1]

@kernelzoo.register("mine", "min", "dies")
def dies(x, out):
    def launch():
        if x.size(1) == 13:
            os.abort()
        out.copy_(x.amin(1))
    return launch
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(KERNELS)
    return path


def test_what_is_right_passes_and_is_counted(answer, tmp_path) -> None:
    """On torch's own kernels; tests/test_conformance.py runs the same cases through every implementation."""
    file = tmp_path / "fuzz.case.json"
    ids = ("torch/*/auto", "torch/softmax/naive", "torch/min/eager")
    status, told = answer("fuzz", *ids, "--cases", "300", "--seed", "1", "--jobs", "2", "--device", "cpu", "-o", file)
    assert (status, told["failures"]) == (0, [])
    assert told == json.loads(file.read_text())
    assert told["format"] == "kernelzoo-fuzz/1" and told["command"].startswith("kernelzoo fuzz ")
    assert told["environment"]["device"] and told["environment"]["versions"]["torch"] and told["seconds"] > 0
    rows = {row["id"]: row for row in told["rows"]}
    chosen = [op for op in BUILT_IN if "auto" in kernelzoo.get("torch").variants(op)]
    assert set(rows) == {*(f"torch/{op}/auto" for op in chosen), "torch/softmax/naive", "torch/min/eager"}
    assert {"softmax", "min", "softmax_backward"} <= {*chosen}
    for row in rows.values():
        assert not row["unavailable"]
        assert row["cases"] == 300 == row["right"] + row["refused"] + row["faults"] + row["no_room"]
        assert (row["failed"], row["seed"]) == (0, 1) and row["right"] > 250 and row["layouts"] > 40


def test_fewer_cases_than_asked_are_said(capsys) -> None:
    cases = fuzz.draw("min", 8, 1, 64)
    work = command._CaseSeries("torch/min/compile", 1, cases, asked=300)
    command._print([work, command._CaseSeries("torch/min/eager", 1, cases)], 1)
    told = capsys.readouterr().out
    assert told.count("8 of 300: slow to bind") == told.count("slow to bind") == 1
    assert work.row()["asked"] == 300


def test_failures_can_be_pasted_and_cost_no_other(kernelzoo, answer, module) -> None:
    options = ("--module", module, "--device", "cpu", "--cases", "96", "--seed", "3", "--jobs", "2")
    done = kernelzoo("fuzz", "mine/min/first", *options)
    assert done.returncode == 1
    lines = re.findall(r"^  repeat kernelzoo (fuzz .*--case .*)$", done.stdout, re.MULTILINE)
    assert 1 <= len(lines) <= 3 and "seed 3" in done.stdout
    assert "failures, the first reduced" in done.stdout and "more; --json has them all" in done.stdout
    assert len(re.findall("^  case   .*, dim=-?[0-9]", done.stdout, re.MULTILINE)) == len(lines)
    again = kernelzoo(*shlex.split(lines[0]))
    assert again.returncode == 1 and "elements wrong; first at" in again.stdout


def test_failures_are_kept_until_they_pass(kernelzoo, module) -> None:
    def run(cases: int, seed: int) -> dict[str, Any]:
        given = ("mine/min/first", "--module", module, "--device", "cpu", "--cases", cases, "--seed", seed, "--json")
        return json.loads(kernelzoo("fuzz", *given).stdout)["rows"][0]

    assert run(96, 3)["failed"]
    assert (again := run(8, 4))["cases"] > again["asked"] == 8 and again["failed"]
    module.write_text(KERNELS.replace("x[:, :16]", "x"))
    assert (mended := run(8, 4))["cases"] > 8 and not mended["failed"]
    assert run(8, 4)["cases"] == 8


def test_without_hypothesis_failures_are_as_drawn(kernelzoo, module, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    given = ("mine/min/first", "--module", module, "--device", "cpu", "--cases", "96", "--seed", "3")
    done = kernelzoo("fuzz", *given)
    assert done.returncode == 1 and "pip install 'hypothesis" in done.stdout
    assert re.findall(r"^  repeat kernelzoo (fuzz .*--case .*)$", done.stdout, re.MULTILINE)


def test_a_crash_costs_a_case(module) -> None:
    shapes = [(3,), (4, 5), (13,), (7,), (2, 2)]
    cases = [str(fuzz.Case("float32", shape, fuzz.Layout(fuzz.dense_strides(shape)))) for shape in shapes]
    with Guard("cpu", [str(module)]) as guard:
        found = guard.fuzz("mine/min/dies", cases)
    ((number, words),) = found["wrong"]
    assert (number, found["right"]) == (2, 4) and "SIGABRT" in words and "mine.py" in words


def test_what_can_t_run_here_is_status_2(answer) -> None:
    status, told = answer("fuzz", "cupy/*", CUDA_VISIBLE_DEVICES="")
    assert status == 2 and all("can't run here" in row["unavailable"] for row in told["rows"])
    assert told["error"].startswith("backend 'cupy' can't run here: ")
