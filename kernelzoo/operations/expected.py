"""What is right for each element of a result: bounds, and how they are made without loosening or tightening any."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelzoo.errors import ContractError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Expected:
    """What is right for each element of a result: anything from ``lower`` to ``upper``, and NaN where these are NaN.

    Both are in the result's own shape and dtype, rounded inwards, so that no value that is wrong in float64 gets by.
    """

    op: str
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
                f"{self.op}: {count} of {wrong.numel()} elements wrong; first at {where}: "
                f"got {got!r}, expected {bounds}",
                "drops NaN" if dropped else "wrong value",
                place=where,
                got=got,
                expected=bounds,
                error=error,
                unit=unit,
            )


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


_PART = 2**20
"""Elements whose float64 temporaries exist at once: 8 MB each, and some five of them."""


def parts(tensors: tuple[torch.Tensor, ...], dim: int) -> Iterable[tuple[torch.Tensor, ...]]:
    """Tensors of one shape in parts of whole rows along ``dim``, of up to _PART elements where a row has no more."""
    x = tensors[0]
    kept = [d for d in range(x.ndim) if d != dim % x.ndim]
    if not kept:
        return (tensors,)
    axis, count = max(kept, key=x.size), -(-x.numel() // _PART)
    return zip(*(tensor.chunk(count, axis) for tensor in tensors), strict=True)


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
