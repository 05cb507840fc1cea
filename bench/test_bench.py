"""Every implementation on every problem: ``pytest --benchmark-only [--shapes sweep] [--backend torch,triton] ...``.

The implementations of one problem are checked and then timed in turns (see kernelzoo.measure); pytest-benchmark is
given the samples as they were measured, through a timer that steps from one to the next.
"""

from typing import Any

import pytest
import torch

from kernelzoo import measure, registry
from kernelzoo.measure import Measurement, Problem, record
from kernelzoo.measure.plugin import SampleReplayTimer

REPLAY = SampleReplayTimer()


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
        pytest.fail(f"no result, since it is wrong: {measured.wrong}", pytrace=False)
    if measured.failed:
        pytest.fail(f"no result, since it failed: {measured.failed}", pytrace=False)
    REPLAY.now, REPLAY.samples = 0.0, list(measured.samples)
    benchmark.group, benchmark.name = problem.id, implementation.id
    benchmark.params = {"problem": problem.id, "implementation": implementation.id}
    shape_set = measure.label(pytestconfig.getoption("--shapes"), pytestconfig.getoption("--seed"))
    benchmark.extra_info.update(record.extra_info(measured, str(device), ceilings, shape_set))
    benchmark.pedantic(REPLAY.step, rounds=len(measured.samples), iterations=1)
