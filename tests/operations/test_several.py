"""Operations of several tensors: what their functions are given, how inputs are drawn, outputs of several kinds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from registered import forget, forget_operation

import kernelzoo
from kernelzoo import operations
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check
from kernelzoo.errors import ContractError
from kernelzoo.launch import Launch


@pytest.fixture
def declared() -> Iterator[dict[str, operations.Operation]]:
    """The operations of this file, forgotten in the end."""

    @kernelzoo.operation(dtypes=("float16", "float32", "float64"))
    class peak:
        """The largest weight of a row, where it is, and what was asked for."""

        x = kernelzoo.Input("outer n inner")
        wanted = kernelzoo.Input("outer inner", dtype="int64", low=0, high="n", also=("none",))
        none = kernelzoo.Scalar(-1, also=(-7,))
        weight = kernelzoo.Output("outer inner")
        place = kernelzoo.Output("outer inner", dtype="int64")
        found = kernelzoo.Output("outer inner", dtype="int64")

        @staticmethod
        def reference(x: Any, wanted: Any, none: int) -> Any:
            return x.softmax(1).amax(1), x.argmax(1), wanted.masked_fill(wanted == none, 5)

        @staticmethod
        def error(ref: Any, unit: float, tiny: float) -> Any:
            return ref[0] * unit * 100 + tiny, None, None

    yield {"peak": operations.OPERATIONS["peak"]}
    forget_operation("peak")
    forget("several")


def register(variant: str, add: int = 0, scale: float = 1) -> kernelzoo.Implementation:
    def bind(x: Any, wanted: Any, weight: Any, place: Any, found: Any, none: int) -> Launch:
        def launch() -> None:
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            weight.copy_(wide.softmax(1).amax(1) * scale)
            place.copy_(x.argmax(1) + add)
            found.copy_(wanted.masked_fill(wanted == none, 5))

        return launch

    bind.__qualname__ = variant
    kernelzoo.register("several", "peak", variant)(bind)
    return kernelzoo.implementation(f"several/peak/{variant}")


def test_integers_beside_floats_are_equal_or_wrong(declared: dict[str, operations.Operation]) -> None:
    right, near, beside = register("right"), register("near", scale=1 + 2e-6), register("beside", add=1)
    case = next(case for case in cases("peak") if case.name == "float32-3x129")
    check(right, case, "cpu")
    check(near, case, "cpu")
    with pytest.raises(ContractError, match=r"^peak place: 3 of 3 elements wrong") as found:
        check(beside, case, "cpu")
    assert (found.value.kind, found.value.error, found.value.unit) == ("wrong value", 1, "1")


def test_every_small_case_is_drawn_and_passed(declared: dict[str, operations.Operation]) -> None:
    """A scalar input too, whose outputs are several."""
    right = register("right")
    found = [case for case in cases("peak") if case.elements < 2**12]
    assert {"float32-scalar", "float32-none=-7", "float32-wanted-stepped"} <= {case.name for case in found}
    for case in found:
        check(right, case, "cpu")


def test_inputs_are_drawn_by_the_scalars_of_the_call(declared: dict[str, operations.Operation]) -> None:
    """What is drawn now and then is drawn once at least."""
    for case in cases("peak"):
        if case.name in ("float32-3x129", "float32-none=-7"):
            wanted = case.inputs("cpu")[1]
            rare = wanted[wanted < 0].unique().tolist()
            assert rare == ([-7] if case.scalars else [-1]), case.name


@pytest.mark.parametrize(
    ("dtype", "unit", "tiny"), [("float16", -24, -126), ("float32", -24, -126), ("float64", -53, -1022)]
)
def test_a_bound_is_given_the_arithmetic(
    declared: dict[str, operations.Operation], dtype: str, unit: int, tiny: int
) -> None:
    op = declared["peak"]
    args = op.arguments((torch.zeros(2, 3, dtype=getattr(torch, dtype)), torch.zeros(2).long()))
    known = op._hook_arguments(args.inputs, args)
    assert (known["unit"], known["tiny"]) == (2.0**unit, 2.0**tiny)


def test_totals_are_drawn_as_a_row_has_them() -> None:
    """Of 1 and more, whatever was drawn; NaN and infinity stay."""
    drawn = torch.tensor([0.0, -3.0, 1e-40, 0.5, 7.0, 3.4e38, math.inf, math.nan])
    clamp_to_domain = operations.OPERATIONS["softmax_finish"].clamp_to_domain(2, drawn, 4)
    assert clamp_to_domain[:5].tolist() == [1, 1, 1, 1, 7]
    assert 3e38 < clamp_to_domain[5] < 3.4e38 and clamp_to_domain[6] == math.inf and clamp_to_domain[7].isnan()


def test_a_merged_sum_has_terms_whose_exponential_is_no_number() -> None:
    """e^-1270 is below every float64, but not half a power of two to the 1023 times it."""
    maximum, total = (torch.tensor([row], dtype=torch.float64) for row in ((0.0, -1270.0), (0.0, 8.5e307)))
    operation = operations.OPERATIONS["softmax_merge"]
    exact = math.exp(math.log(8.5e307) - 1270)
    args = operation.arguments((maximum, total), -1)
    assert operation.reference(args)[1].item() == pytest.approx(exact, rel=1e-12, abs=0)
    for implementation in kernelzoo.implementations("torch", "softmax_merge"):
        outs = operation.allocate(args)
        implementation.launch(maximum, total, dim=-1, out=outs)()
        assert outs[1].item() == pytest.approx(exact, rel=1e-12, abs=0)


def test_an_own_reduction_converts_as_it_says() -> None:
    @kernelzoo.operation(dtypes=("float32", "float64"))
    class total:
        """The sum of a row."""

        x = kernelzoo.Input("outer n inner")
        out = kernelzoo.Output("outer inner")
        converts = True

        @staticmethod
        def reference(x: Any) -> Any:
            return x.sum(1)

    try:
        kernelzoo.register("several", "total", "plain")(lambda x, out: lambda: out.copy_(x.sum(1)))
        found = kernelzoo.get("several").total(torch.ones(3, 4), dtype=torch.float64)
        assert found.dtype == torch.float64 and found.tolist() == [4, 4, 4]
    finally:
        forget_operation("total")
        forget("several")
