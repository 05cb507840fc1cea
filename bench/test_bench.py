"""Every implementation on every problem: ``pytest --benchmark-only [--shapes sweep] [--backend torch,triton] ...``.

The implementations of one problem are checked and then timed in turns (see kernelzoo.measure); pytest-benchmark is
given the samples as they were measured, through a timer that steps from one to the next.
"""

import math
from typing import Any

import pytest
import torch

from kernelzoo import measure, registry
from kernelzoo.measure import Measurement, Problem, Replay

REPLAY = Replay()


@pytest.mark.benchmark(timer=REPLAY)
def test_bench(
    benchmark: Any,  # pytest-benchmark carries no types
    problem: Problem,
    implementation: registry.Implementation,
    races: Any,  # Races of conftest.py, which is no module to import
    device: torch.device,
    ceilings: measure.Ceilings | None,
    pytestconfig: pytest.Config,
) -> None:
    measured: Measurement = races.result(problem, implementation)
    if measured.refused:
        pytest.skip(measured.refused)
    if measured.wrong:
        pytest.fail(f"not timed, since it is wrong: {measured.wrong}", pytrace=False)
    REPLAY.now, REPLAY.samples = 0.0, list(measured.samples)
    benchmark.group = problem.id
    benchmark.extra_info.update(
        id=implementation.id,
        backend=implementation.backend,
        op=problem.op,
        variant=implementation.variant,
        shape=list(problem.shape),
        dim=problem.dim,
        dtype=problem.dtype,
        bytes=measured.bytes,
        gb_per_s=_round(measured.gb_per_s),
        clock=measured.clock,
        clock_detail=measured.clock_detail,
        device=measure.device_name(str(device)),
        versions=measure.versions(str(device)),
        samples=len(measured.samples),
        submit_us=_round(measured.submit * 1e6) if measured.submit is not None else None,
        first_call_ms=_round(measured.first_call * 1e3) if measured.first_call is not None else None,
        ceiling_gb_per_s=_round(ceilings.bandwidth(problem.op) / 1e9) if ceilings else None,
        floor_us=_round(ceilings.floor * 1e6) if ceilings else None,
        shape_set=pytestconfig.getoption("--shapes"),
    )
    benchmark.pedantic(REPLAY.step, rounds=len(measured.samples), iterations=1)


def _round(value: float, digits: int = 5) -> float:
    """To significant digits: more would claim what no clock here can tell."""
    return round(value, digits - 1 - math.floor(math.log10(value))) if value > 0 else value
