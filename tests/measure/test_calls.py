"""The clock of whole calls: what is called, that it is checked as it was called, and how many calls a sample has."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import measure, registry
from kernelzoo.measure.calls import Call, CallClock, make_user_call
from kernelzoo.measure.clocks import WallClock

CPU = torch.device("cpu")
PROBLEM = measure.Problem("softmax", (64, 33), "float32")


def race(*implementations: registry.Implementation, **options: Any) -> list[measure.Measurement]:
    found = measure.race(PROBLEM, implementations, CPU, **{"rounds": 3, "cache": "hot", "timed": "call"} | options)
    return list(found.values())


def test_whole_calls_have_a_clock_of_their_own() -> None:
    kernelzoo.get("cpu")
    ids = ("torch/softmax/eager", "torch/softmax/auto", "cpu/softmax/auto")
    for result in race(*map(kernelzoo.implementation, ids)):
        assert (result.wrong, result.failed, result.refused, len(result.samples)) == ("", "", "", 3)
        assert (
            result.clock == "call" and "kernelzoo.get(BACKEND).softmax, or torch.softmax itself" in result.clock_detail
        )
        assert result.limit is None and result.copy is None and result.submit is None


def test_the_baseline_is_torch_s_own_function_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out, seen = torch.randn(4, 5), torch.empty(4, 5), list[str]()
    monkeypatch.setattr(torch, "softmax", lambda x, dim: seen.append("torch") or x.softmax(dim))
    backend = SimpleNamespace(softmax=lambda x, dim, variant: seen.append(variant) or x.softmax(dim))
    monkeypatch.setattr("kernelzoo.measure.calls.backends.get", lambda name: backend)
    for variant in ("eager", "auto"):
        implementation = kernelzoo.implementation(f"torch/softmax/{variant}")
        make_user_call(implementation, measure.Problem("softmax", (4, 5), "float32", 0), [x], [out])()
        assert torch.equal(out, x.softmax(0))
    assert seen == ["torch", "auto"]


def test_an_operation_that_torch_lacks_is_called_of_the_backend() -> None:
    problem = measure.Problem("softmax_backward", (16, 33), "float32")
    eager = kernelzoo.implementation("torch/softmax_backward/eager")
    (result,) = measure.race(problem, [eager], CPU, rounds=2, cache="hot", timed="call").values()
    assert len(result.samples) == 2 and "itself" not in result.clock_detail


def test_a_call_that_returns_another_shape_is_no_result() -> None:
    with pytest.raises(AssertionError, match="a call returned"):  # which a copy would spread over all of it
        Call(lambda: torch.zeros(1, 3), [torch.empty(2, 3)])()


def test_a_turn_on_a_gpu_begins_idle_and_delivers_after_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now, events, outs = 0.0, list[str](), [torch.empty(1) for _ in range(3)]

    def call() -> torch.Tensor:
        nonlocal now
        now += 1e-6
        events.append("call")
        return torch.zeros(1)

    monkeypatch.setattr("kernelzoo.measure.calls.perf_counter", lambda: now)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: events.append("wait"))
    clock = CallClock(WallClock(), torch.device("cuda"), "softmax")
    turn = clock.prepare_turn([Call(call, [out]) for out in outs])
    assert turn(1) == pytest.approx(3e-6)
    assert events == ["wait", *["call"] * 3, "wait"]
    assert not any(out.item() for out in outs)
