"""``--energy``: a column of ``bench`` and ``compare``, and what is said where there is no counter."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from kernelzoo.cli import rows
from kernelzoo.measure import Problem

PROBLEM = Problem("softmax", (64, 1024), "float32", -1)
COUNTED = {"launches": 40_000, "span_ms": 400.0, "launch_us": 10.0, "step_ms": 100.0, "step_mj": 4e4}


@pytest.fixture
def entry(raced: Callable[..., Any]) -> Callable[..., Any]:
    """What a race hands back of an implementation, with the energy of a launch."""

    def make(id: str, mj: float | None, *flags: str) -> Any:
        energy = None if mj is None else COUNTED | {"launch_mj": mj}
        return raced(id, [1e-5 + i * 1e-9 for i in range(9)], flags=list(flags), energy=energy)

    return make


@pytest.mark.parametrize("full", [True, False])
def test_the_energy_stands_beside_the_time_with_its_ratio(full, entry, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    made = [entry("torch/softmax/eager", 4.0), entry("triton/softmax/auto", 1.0)]
    made.append(entry("cupy/softmax/auto", None, "no energy: the counter did not move in 1 s"))
    found = rows.describe_problem(PROBLEM, made, [], "torch/softmax/eager")
    ratios = {"torch/softmax/eager": 1.0, "triton/softmax/auto": 0.25, "cupy/softmax/auto": None}
    assert {row["id"]: row["energy_ratio"] for row in found["rows"]} == ratios
    rows.Tables(full=full).show(found)
    said = capsys.readouterr().out
    assert "It moves every 100 ms, by 40000 mJ (medians)" in said and "idle power included" in said
    assert "energy, mJ  energy ratio" in said and "no energy: the counter did not move in 1 s" in said
    line = next(line for line in said.splitlines() if line.startswith("triton/softmax/auto"))
    assert re.search(r" 1\.00 +0\.250\b", line)


def test_without_energy_there_is_no_column(entry, capsys) -> None:
    made = [entry("torch/softmax/eager", None)]
    rows.Tables().show(rows.describe_problem(PROBLEM, made, [], "torch/softmax/eager"))
    assert "energy" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [("bench",), ("compare", "torch/softmax/eager")])
def test_without_a_counter_it_is_said_before_anything_is_measured(command, answer, small) -> None:
    shape = small if command == ("bench",) else ("--shape", "32x64")
    status, told = answer(*command, *shape, "--op", "softmax", "--device", "cpu", "--energy")
    assert status == 2
    assert "--energy is not available here" in told["error"] and "'cpu' has none" in told["error"]
