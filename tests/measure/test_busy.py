"""A time that contradicts the judge's clock is false on a quiet machine; on a busy one there is none, and no blame."""

import os
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
    def __init__(self, disturbed: str, others: str) -> None:
        self.why, self.beside = disturbed, others

    def read(self) -> Condition:
        return Condition()

    def disturbed(self, before: Condition, after: Condition) -> str:
        return self.why

    def others(self, ours: set[int]) -> str:
        assert os.getpid() in ours
        return self.beside


@pytest.mark.slow
@pytest.mark.parametrize(("disturbed", "others"), [("threads waited", ""), ("", "2 other processes"), ("", "")])
def test_a_busy_machine_costs_a_row_its_time(disturbed: str, others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = disturbed or others
    monkeypatch.setattr(RACE, "watch", lambda *given: Watch(disturbed, others))
    monkeypatch.setattr(Doubts, "false_time", lambda *given: "it took longer")
    made = registry.implementation("torch/softmax/eager")
    (result,) = measure.race(PROBLEM, [made], torch.device("cpu"), rounds=1, cache="hot").values()
    assert not result.samples
    if busy:
        assert (result.wrong, result.refused) == ("", f"it took longer; but {busy}, so measure again")
        assert result.details == {"kind": BUSY}
    else:
        assert result.wrong.endswith("it took longer") and result.refused == ""


def test_a_right_kernel_without_a_time_is_right() -> None:
    made: Any = verdicts.Case("a.json", None, None)  # type: ignore[arg-type]
    made.add(PROBLEM, {"outcome": "refused", "kind": BUSY, "reason": "measure again"}, None, None)
    assert (made.right, made.times, made.refusals) == ([PROBLEM], [], [])
