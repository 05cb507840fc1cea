"""What is timed is what is checked: kernels that are lazy only while they are timed have no result."""

from collections.abc import Callable, Iterator

import pytest
import torch
from adversaries import ADVERSARIES, Adversary
from registered import forget

import kernelzoo
from kernelzoo import measure
from kernelzoo.measure import Measurement, Problem
from kernelzoo.measure.clocks import WallClock
from kernelzoo.registry import Bind

CPU = torch.device("cpu")
PROBLEM = Problem("softmax", (256, 512), "float32")
CLEVER = "of what was changed between two launches"
AS_TIMED = "right when checked alone, wrong as it was timed: "
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")),
]

Race = Callable[..., dict[str, Measurement]]


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Race]:
    """Races a bind under a throw-away name, on a dozen sets on the host, beside others."""
    monkeypatch.setattr(WallClock, "sets_bytes", 12 * PROBLEM.bytes)

    def race(bind: Bind, *others: str, device: str = "cpu", problem: Problem = PROBLEM, **options: object):
        kernelzoo.register("entrant", problem.op, "only")(bind)
        ids = [f"entrant/{problem.op}/only", *others]
        options = {"rounds": 12, **options}
        return measure.race(problem, [kernelzoo.implementation(id) for id in ids], torch.device(device), **options)

    yield race
    forget("entrant")


def layer_of(result: Measurement) -> str:
    if not result.wrong:
        return f"none: {result.refused or result.failed or 'it was timed'}"
    if not result.wrong.startswith(AS_TIMED):
        return "gate"
    return "turn" if CLEVER in result.wrong else "end"


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_it_has_no_result(adversary: Adversary, device: str, race: Race) -> None:
    result = race(adversary.made(), device=device)["entrant/softmax/only"]
    assert not result.samples, f"timed: {result.median}"
    if device == "cpu":  # in a CUDA graph some fail, and others are lazy before they are timed
        assert layer_of(result) == adversary.layer, result.wrong
