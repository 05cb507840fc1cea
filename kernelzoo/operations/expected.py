"""What is right for each element of a result: bounds, and how they are made without loosening or tightening any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelzoo.errors import ContractError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Bounds:
    """What is right for each element of one output: anything from ``lower`` to ``upper``, and NaN where these are NaN.

    Both are in the output's own shape and dtype, rounded inwards, so that no value that is wrong in float64 gets by.
    """

    name: str
    """Of the operation, and of the output if it has several."""
    lower: torch.Tensor
    upper: torch.Tensor

    def check(self, actual: torch.Tensor) -> None:
        """Raise ContractError, with the first wrong element, unless the whole of ``actual`` is right."""
        for what, given, want in (
            ("shape", tuple(actual.shape), tuple(self.lower.shape)),
            ("dtype", actual.dtype, self.lower.dtype),
            ("device", actual.device, self.lower.device),
        ):
            if given != want:
                raise ContractError(f"result has {what} {given}, must have {want}", "wrong kind of result")
        # A NaN is never within two bounds; where one is due is asked only when something is not.
        right = (actual >= self.lower).logical_and_(actual <= self.upper)
        if bool(right.all()):
            return
        wrong = ~(right | (actual != actual) & (self.lower != self.lower))
        count = int(wrong.sum())
        if count:
            import torch

            first = wrong.flatten().view(torch.uint8).argmax()
            where = tuple(int(i) for i in torch.unravel_index(first, wrong.shape))
            got, lower, upper = (tensor[where].item() for tensor in (actual, self.lower, self.upper))
            bounds = f"{lower!r}" if lower == upper or lower != lower else f"{lower!r} to {upper!r}"
            # Where every wrong element stands in the place of a NaN, and none is a NaN itself, NaN is what was lost.
            dropped = bool(((self.lower != self.lower) | ~wrong).all())
            error, unit = _beyond(got, lower, upper, actual.dtype)
            raise ContractError(
                f"{self.name}: {count} of {wrong.numel()} elements wrong; first at {where}: "
                f"got {got!r}, expected {bounds}",
                "drops NaN" if dropped else "wrong value",
                place=where,
                got=got,
                expected=bounds,
                error=error,
                unit=unit,
            )


@dataclass(frozen=True)
class Expected:
    """What is right for the outputs of a call: bounds of each."""

    outputs: tuple[Bounds, ...]

    def check(self, outs: Sequence[torch.Tensor]) -> None:
        """Raise ContractError, with the first wrong element, unless every output is right."""
        for bounds, out in zip(self.outputs, outs, strict=True):
            bounds.check(out)


def bounds_of(exact: torch.Tensor, error: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the greatest right value in a float dtype: of a result that is exact but for ``error``, both in
    float64. NaN and infinities are due where ``exact`` has them."""
    import torch

    lower = rounded_to(exact - error, dtype, up=True)
    upper = rounded_to(exact + error, dtype, up=False)
    info = torch.finfo(dtype)
    # An honest result may overflow where the largest number is within the error, and need not.
    lower, upper = lower.clamp(max=info.max), upper.clamp(min=-info.max)
    upper = upper.masked_fill(exact + error > info.max, math.inf)
    lower = lower.masked_fill(exact - error < -info.max, -math.inf)
    infinite = exact.isinf()
    due = exact.to(dtype)
    return lower.where(~infinite, due), upper.where(~infinite, due)


def _beyond(got: float, lower: float, upper: float, dtype: torch.dtype) -> tuple[float | None, str]:
    """How far a wrong element lies beyond the nearest right value, and in what; None where that is no number."""
    nearest = lower if got < lower else upper
    if not dtype.is_floating_point:
        return abs(int(got) - int(nearest)), "1"
    if not (math.isfinite(got) and math.isfinite(nearest)):
        return None, "ulp"
    import torch

    info = torch.finfo(dtype)
    exponent = math.frexp(max(abs(nearest), info.tiny))[1] - 1
    return abs(got - nearest) / 2.0**exponent / info.eps, "ulp"


def rounded_to(exact: torch.Tensor, dtype: torch.dtype, *, up: bool) -> torch.Tensor:
    """Float64 in another float dtype, rounded up or down: the least value of it that is no less, or the greatest no
    greater."""
    import torch

    rounded = exact.to(dtype)
    missed = rounded.double() < exact if up else rounded.double() > exact
    # The next value up has the next bits as an integer, the next value down those before; below zero the other way.
    bits = rounded.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize])
    before = rounded.signbit().eq_(up)
    bits.add_(missed & ~before).add_(missed & before, alpha=-1)
    return rounded
