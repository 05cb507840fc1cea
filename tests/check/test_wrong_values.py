"""Kernels that are right on plain values, and wrong somewhere in the range of all: verify and the gate reject each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelzoo.check import running
from kernelzoo.check.cases import cases
from kernelzoo.errors import ContractError
from kernelzoo.launch import Bind, void
from kernelzoo.measure import Entrant, Gate, LocalRunner, Problem, TensorSets
from kernelzoo.registry import Implementation

Tensor = torch.Tensor
Rule = Callable[[Tensor], Tensor]
"""What a wrong kernel makes of x, of three axes."""

WRONG: list[tuple[Rule, str, str, tuple[int, ...]]] = []


def wrong(op: str, dtype: str = "float32", shape: tuple[int, ...] = (64, 300)) -> Callable[[Rule], Rule]:
    """Add a kernel, and the problem on which the gate must reject it."""

    def decorate(rule: Rule) -> Rule:
        WRONG.append((rule, op, dtype, shape))
        return rule

    return decorate


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x.double(), 1).to(x.dtype)


@wrong("softmax")
def exponentials_flushed_25_below_the_maximum(x: Tensor) -> Tensor:
    deep = x < x.amax(1, keepdim=True) - 25
    return softmax(x) * ~deep  # NaN stays NaN


@wrong("softmax")
def no_maximum_subtracted_below_500(x: Tensor) -> Tensor:
    top = x.amax(1, keepdim=True)
    shifted = x.exp()
    return softmax(x).where(~(top.abs() < 500), shifted / shifted.sum(1, keepdim=True))


@wrong("softmax")
def nan_for_a_row_of_hundreds(x: Tensor) -> Tensor:
    return softmax(x).masked_fill((x == 100).all(1, keepdim=True), torch.nan)


@wrong("softmax")
def wrong_where_a_row_is_small(x: Tensor) -> Tensor:
    """A sum that is not kept for values that are all alike but for 1e-7."""
    small = x.abs().amax(1, keepdim=True) < 1e-6
    return softmax(x).where(~small, 0)


@wrong("softmax", "float64")
def wide_exponentials_flushed_300_below(x: Tensor) -> Tensor:
    deep = x < x.amax(1, keepdim=True) - 300
    return softmax(x) * ~deep  # NaN stays NaN


@wrong("min")
def positive_subnormal_minima_flushed(x: Tensor) -> Tensor:
    least = x.amin(1)
    return least.masked_fill((least > 0) & (least < torch.finfo(x.dtype).tiny), 0)


@wrong("min")
@wrong("min", "bfloat16")
def near_ties_one_ulp_apart(x: Tensor) -> Tensor:
    """The first of those that are equal but for a unit in the last place."""
    least = x.amin(1, keepdim=True)
    near = (x <= least + least.abs() * torch.finfo(x.dtype).eps) | (x == least)
    return x.gather(1, near.byte().argmax(1, keepdim=True))[:, 0].where(~least[:, 0].isnan(), torch.nan)


@wrong("min", "int32")
def integers_compared_as_floats(x: Tensor) -> Tensor:
    return x.gather(1, x.float().argmin(1, keepdim=True))[:, 0]


def right(x: Tensor) -> Tensor:
    return x.amin(1)


@wrong("min", "bool")
def a_bool_minimum_of_part_of_the_row(x: Tensor) -> Tensor:
    """The last eighth is not read, but for the end."""
    n = x.size(1)
    return x[:, : n - n // 8].amin(1) & x[:, -1]


@wrong("min", "uint8", (64, 4096))
def a_minimum_of_19_in_20(x: Tensor) -> Tensor:
    n = x.size(1)
    return torch.minimum(x[:, n // 20 :].amin(1), x[:, 0])


def unread(share: float, start: float) -> Rule:
    """A minimum that leaves a share of long rows unread."""

    def rule(x: Tensor) -> Tensor:
        n = x.size(1)
        if n < 2**22:
            return x.amin(1)
        first = int(n * start)
        return torch.minimum(x[:, :first].amin(1), x[:, first + int(n * share) :].amin(1))

    rule.__name__ = f"{share:.0%} of a long row unread"
    return rule


def every(step: int) -> Rule:
    def rule(x: Tensor) -> Tensor:
        if x.size(1) < 2**22:
            return x.amin(1)
        parts = x.unflatten(1, (-1, step))
        return torch.minimum(parts[:, :, :7].amin((1, 2)), parts[:, :, 8:].amin((1, 2)))

    rule.__name__ = f"every {step}th of a long row unread"
    return rule


for made in (unread(0.02, 0.311), unread(0.1, 0.8), every(16)):
    wrong("min", "float32", (1, 2**22))(made)
wrong("min", "bool", (1, 2**22))(unread(0.05, 0.5))

IDS = [f"{rule.__name__}-{dtype}" for rule, _, dtype, _ in WRONG]


@pytest.fixture
def enter(enter: Callable[[str, Bind], Implementation]) -> Callable[[str, Rule], Implementation]:
    return lambda op, rule: enter(op, lambda x, out: lambda: void(out.copy_(rule(x))))


@pytest.mark.parametrize(("rule", "op", "dtype", "shape"), WRONG, ids=IDS)
def test_verify_rejects_it(rule: Rule, op: str, dtype: str, shape: Any, enter: Any) -> None:
    implementation, large = enter(op, rule), shape[1] > 2**20
    found = 0
    for case in cases(op):
        if case.dtype == dtype and (case.elements == 2**23 if large else case.elements <= 2**15):
            try:
                running.check(implementation, case, "cpu")
            except ContractError:
                found += 1
    assert found


def admit(problem: Problem, implementation: Implementation) -> None:
    sets, runner = TensorSets(problem, 2, torch.device("cpu")), LocalRunner(torch.device("cpu"))
    runner.open_sets(problem, sets, "device")
    Gate(sets, 3).admit(Entrant(implementation, runner))


@pytest.mark.parametrize(
    ("rule", "op", "dtype"), [(softmax, "softmax", "float32"), (right, "min", "float32"), (right, "min", "uint8")]
)
def test_a_right_one_passes(rule: Rule, op: str, dtype: str, enter: Any) -> None:
    implementation = enter(op, rule)
    for case in cases(op):
        if case.dtype == dtype and case.elements <= 2**15:
            running.check(implementation, case, "cpu")
    for shape in ((64, 300), (1, 2**20)):
        admit(Problem(op, shape, dtype), implementation)


@pytest.mark.parametrize(("rule", "op", "dtype", "shape"), WRONG, ids=IDS)
def test_the_gate_rejects_it(rule: Rule, op: str, dtype: str, shape: Any, enter: Any) -> None:
    problem, implementation = Problem(op, shape, dtype), enter(op, rule)
    with pytest.raises(ContractError):
        admit(problem, implementation)
