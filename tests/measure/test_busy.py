"""A time that contradicts the judge's clock is false on a quiet machine; on a busy one there is none, and no blame."""

import sys
from typing import Any

import pytest
import torch

from kernelzoo import measure, registry
from kernelzoo.cli import verdicts
from kernelzoo.measure import Problem
from kernelzoo.measure.condition import Condition
from kernelzoo.measure.judge.doubts import Doubts
from kernelzoo.measure.measurement import BUSY

RACE: Any = sys.modules[measure.race.__module__]
PROBLEM = Problem("softmax", (64, 33), "float32")


class Watch:
    def __init__(self, disturbed: str) -> None:
        self.why = disturbed

    def read(self) -> Condition:
        return Condition()

    def disturbed(self, before: Condition, after: Condition) -> str:
        return self.why


@pytest.mark.slow
@pytest.mark.parametrize("busy", ["threads waited", ""])
def test_a_busy_machine_costs_a_row_its_time(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RACE, "watch", lambda *given: Watch(busy))
    monkeypatch.setattr(Doubts, "false_time", lambda *given: "it took longer")
    made = registry.implementation("torch/softmax/eager")
    (result,) = measure.race(PROBLEM, [made], torch.device("cpu"), rounds=1, cache="hot").values()
    assert not result.samples
    if busy:
        assert (result.wrong, result.refused) == ("", "it took longer; but threads waited, so measure again")
        assert result.details == {"kind": BUSY}
    else:
        assert result.wrong.endswith("it took longer") and result.refused == ""


def test_a_right_kernel_without_a_time_is_right() -> None:
    made: Any = verdicts.Case("a.json", None, None)  # type: ignore[arg-type]
    made.add(PROBLEM, {"outcome": "refused", "kind": BUSY, "reason": "measure again"}, None, None)
    assert (made.right, made.times, made.refusals) == ([PROBLEM], [], [])
