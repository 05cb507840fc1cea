"""The bounds within which each element of a result is right, and how they are rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelzoo.errors import ContractError
from kernelzoo.layout import unravel_index
from kernelzoo.lazy import torch


@dataclass(frozen=True)
class Bounds:
    """The right values of one output: from ``lower`` to ``upper``, and NaN where these are NaN.

    Both have the output's shape and dtype, or float32 for a float8 output: torch can't compare float8. They are rounded
    inwards, so no value that is wrong in float64 passes.
    """

    name: str
    """The operation's name, followed by the output's name if there are several."""
    lower: torch.Tensor
    upper: torch.Tensor
    dtype: torch.dtype | None = None
    """The output's dtype, if it is not that of the bounds."""

    def correct_elements(self, actual: torch.Tensor) -> torch.Tensor:
        """Return for each element whether it is within the bounds."""
        actual = actual.to(self.lower.dtype)
        right = (actual >= self.lower).logical_and_(actual <= self.upper)
        return right.logical_or_((actual != actual).logical_and_(self.lower != self.lower))

    def check(self, actual: torch.Tensor) -> None:
        """Raise ContractError, with the first wrong element, unless every element is right."""
        if words := why_unlike(actual, self.lower.shape, self.dtype or self.lower.dtype, self.lower.device):
            raise ContractError(f"result {words}", "wrong kind of result")
        # A NaN is within no bounds. Whether NaN is expected is tested only if some element is outside.
        compared = actual.to(self.lower.dtype)
        if bool((compared >= self.lower).logical_and_(compared <= self.upper).all()):
            return
        wrong = ~self.correct_elements(actual)
        count = int(wrong.sum())
        if count:
            where = unravel_index(int(wrong.flatten().view(torch.uint8).argmax()), wrong.shape)
            got, lower, upper = (tensor[where].item() for tensor in (actual, self.lower, self.upper))
            bounds = f"{lower!r}" if lower == upper or lower != lower else f"{lower!r} to {upper!r}"
            # If every wrong element should be NaN and none is, the kernel drops NaN.
            dropped = bool(((self.lower != self.lower) | ~wrong).all())
            error, unit = _distance_to_bounds(got, lower, upper, actual.dtype)
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


def why_unlike(x: torch.Tensor, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> str:
    """Say whether a tensor's shape, dtype or device is wrong, and which; "" if none is."""
    wanted = {"shape": tuple(shape), "dtype": dtype, "device": device}
    for what, given in {"shape": tuple(x.shape), "dtype": x.dtype, "device": x.device}.items():
        if given != wanted[what]:
            return f"has {what} {given}, must have {wanted[what]}"
    return ""


def bounds_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of an output's bounds."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize == 1 else dtype


@dataclass(frozen=True)
class IntegerBounds:
    """The least and greatest right values of an output of integers, as the hook ``errors`` may give them."""

    least: torch.Tensor
    most: torch.Tensor


_EXCUSED = 10
"""The most wrong elements of an undecidable output, for each wrong element of the reference as written. With it, one
element in a thousand may be wrong."""


@dataclass(frozen=True)
class RareElementErrorBounds:
    """An item of the hook ``errors``: only a fraction of the elements may exceed the previous item's errors."""

    errors: Any
    share: float


@dataclass(frozen=True)
class Expected:
    """The bounds of each output of a call."""

    outputs: tuple[Bounds, ...]
    doubt: Callable[[Expected], tuple[str, Sequence[torch.Tensor]]] | None = field(
        default=None, repr=False, compare=False
    )
    """A function that says why the bounds can't decide, or "", with the results of the reference as written. It is only
    called for a result outside of the bounds."""
    wider: Callable[[], Expected | None] | None = field(default=None, repr=False, compare=False)
    """A function that returns the next wider bounds, or None. It is only called for a result outside of these."""
    share: float = 1.0
    """The fraction of an output's elements that may be outside of the next narrower bounds. One element always may."""

    def check(self, outs: Sequence[torch.Tensor]) -> None:
        """Raise ContractError, with the first wrong element, unless every output is right or undecidable.

        An output is undecidable if elements of the reference as written are wrong too, at least a tenth as many.
        """
        try:
            self.check_within_bounds(outs)
        except ContractError as error:
            if error.kind == "wrong kind of result" or self.doubt is None or not (written := self.doubt(self)[1]):
                raise
            widest = self
            while widest.wider is not None and (wider := widest.wider()) is not None:
                widest = wider
            for bounds, out, own in zip(widest.outputs, outs, written, strict=True):
                wrong, due = (int((~bounds.correct_elements(x)).sum()) for x in (out, own))
                if wrong > (_EXCUSED * due + out.numel() // 1000 if due else 0):
                    bounds.check(out)

    def check_within_bounds(self, outs: Sequence[torch.Tensor]) -> None:
        """Raise ContractError for any output outside of the bounds, even if the case is undecidable."""
        try:
            for bounds, out in zip(self.outputs, outs, strict=True):
                bounds.check(out)
        except ContractError as error:
            if error.kind == "wrong kind of result" or self.wider is None or (wider := self.wider()) is None:
                raise
            for bounds, out in zip(self.outputs, outs, strict=True):
                if wider.share < 1 and int((~bounds.correct_elements(out)).sum()) > max(1, wider.share * out.numel()):
                    raise
            wider.check_within_bounds(outs)


def bounds_of(exact: torch.Tensor, error: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and greatest right value in a float dtype; ``exact`` and ``error`` are float64."""
    lower = rounded_to(exact - error, dtype, up=True)
    upper = rounded_to(exact + error, dtype, up=False)
    info = torch.finfo(dtype)
    # Where the largest number is within the error, both a finite result and an overflow are right.
    lower, upper = lower.clamp(max=info.max), upper.clamp(min=-info.max)
    upper = upper.masked_fill(exact + error > info.max, math.inf)
    lower = lower.masked_fill(exact - error < -info.max, -math.inf)
    infinite = exact.isinf()
    due = exact.to(dtype)
    return lower.where(~infinite, due), upper.where(~infinite, due)


def _distance_to_bounds(got: float, lower: float, upper: float, dtype: torch.dtype) -> tuple[float | None, str]:
    """Return the distance from the nearest right value (None for NaN or infinity), and the distance's unit."""
    nearest = lower if got < lower else upper
    if not dtype.is_floating_point:
        return abs(int(got) - int(nearest)), "1"
    if not (math.isfinite(got) and math.isfinite(nearest)):
        return None, "ulp"
    info = torch.finfo(dtype)
    exponent = math.frexp(max(abs(nearest), info.tiny))[1] - 1
    return abs(got - nearest) / 2.0**exponent / info.eps, "ulp"


def rounded_to(exact: torch.Tensor, dtype: torch.dtype, *, up: bool) -> torch.Tensor:
    """Round float64 up or down to another float dtype."""
    rounded = exact.to(dtype)
    missed = rounded.double() < exact if up else rounded.double() > exact
    # Adding 1 to the bits gives the next value up, subtracting 1 the next down. Below zero it is reversed.
    bits = rounded.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize])
    before = rounded.signbit().eq_(up)
    bits.add_(missed & ~before).add_(missed & before, alpha=-1)
    return rounded
