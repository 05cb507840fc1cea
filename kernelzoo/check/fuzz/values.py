"""Named families of values for fuzzing, drawn on a device from a seed.

A family is a function of a :class:`Fill`. A special value is one element of a dtype that often breaks kernels. Both
have names, so that a case can be written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kernelzoo.check.bits import bits
from kernelzoo.lazy import torch

DECLARED = "declared"
"""The family of an input whose values the operation declares. :mod:`kernelzoo.operations.sampling` draws it."""


@dataclass(frozen=True)
class TensorFiller:
    """The shape, dtype and generator of a tensor to draw, with methods that draw common kinds of values."""

    shape: tuple[int, ...]
    kind: torch.dtype
    generator: torch.Generator

    @property
    def info(self) -> Any:
        return torch.finfo(self.kind) if self.kind.is_floating_point else torch.iinfo(self.kind)

    def normal(self, double: bool | None = None) -> torch.Tensor:
        """Draw normal values, in float64 if ``double``, else in float32. By default, dtypes of 8 bytes use float64."""
        return self._allocate_floats(double).normal_(generator=self.generator)

    def uniform(self, double: bool | None = None) -> torch.Tensor:
        return self._allocate_floats(double).uniform_(generator=self.generator)

    def signs(self, double: bool | None = None) -> torch.Tensor:
        return self.uniform(double).sub_(0.5).sign_()

    def constant(self, double: bool | None = None) -> torch.Tensor:
        """Draw one normal value, expanded to the shape."""
        return replace(self, shape=()).normal(double).expand(self.shape)

    def integers(self, low: int, high: int | None) -> torch.Tensor:
        """Draw 64-bit integers from ``low`` to ``high - 1``, or without an upper limit if ``high`` is None."""
        words = torch.empty(self.shape, dtype=torch.int64, device=self.generator.device)
        return words.random_(low, high, generator=self.generator)

    def _allocate_floats(self, double: bool | None) -> torch.Tensor:
        double = self.kind.itemsize == 8 if double is None else double
        return torch.empty(self.shape, dtype=torch.float64 if double else torch.float32, device=self.generator.device)


Family: TypeAlias = Callable[[TensorFiller], "torch.Tensor"]


def families_of_dtype(dtype: str) -> tuple[str, ...]:
    """Return the names of a dtype's families, the plainest first."""
    return tuple(_families_by_name(dtype))


def draw(family: str, shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    """Draw values of a family, as a new contiguous tensor on the generator's device."""
    kind = getattr(torch, dtype)
    return _families_by_name(dtype)[family](TensorFiller(shape, kind, generator)).to(kind)


def specials(dtype: str) -> tuple[str, ...]:
    """Return the names of a dtype's special values."""
    if dtype == "bool":
        return ("false", "true")
    return _SPECIAL_FLOATS if "float" in dtype else ("least", "most", "zero", "ones")


def bits_of(name: str, dtype: str) -> int:
    """Return the bits of a special value, as an integer of the same width."""
    kind = getattr(torch, dtype)
    if kind == torch.bool:
        return int(name == "true")
    if not kind.is_floating_point:
        info = torch.iinfo(kind)
        number = {"least": info.min, "most": info.max, "zero": 0, "ones": -1}[name]
        return int(bits(torch.tensor(number).to(kind)))
    if name == "-nan":
        return -1  # all bits set: the sign and the whole payload
    limits = torch.finfo(kind)
    values = {"nan": math.nan, "signaling nan": math.inf, "inf": math.inf, "0": 0.0, "max": limits.max}
    values |= {"tiny": limits.tiny, "subnormal": limits.tiny * limits.eps}
    value = math.copysign(values[name.removeprefix("-")], -1 if name.startswith("-") else 1)
    # The first bit pattern above infinity's is a signaling NaN.
    return int(bits(torch.tensor(value, dtype=torch.float64).to(kind))) + (name == "signaling nan")


_SPECIAL_FLOATS = (
    *("nan", "-nan", "signaling nan", "inf", "-inf", "0", "-0", "max", "-max", "tiny", "-tiny"),
    *("subnormal", "-subnormal"),
)
"""Names of the special values of floats. ``tiny`` is the smallest normal number."""


def _families_by_name(dtype: str) -> dict[str, Family]:
    return _BOOLS if dtype == "bool" else _FLOATS if "float" in dtype else _INTEGERS


def _draw_every_exponent(fill: TensorFiller) -> torch.Tensor:
    """Draw values with every exponent of the dtype, and both signs."""
    low, high = math.log2(fill.info.tiny), math.log2(fill.info.max)
    exponent = fill.uniform(double=True).mul_(high - low).add_(low)
    return exponent.exp2_().mul_(fill.signs(double=True)).clamp_(-fill.info.max, fill.info.max)


def _draw_plateau(fill: TensorFiller) -> torch.Tensor:
    """Draw equal values, with about one in 200 larger. A sequential sum rounds in the same direction at each step."""
    low = fill.constant(double=True).abs().neg_()
    return low.masked_fill_(fill.uniform(double=False) < 0.005, 2.0)


def _draw_close_values(fill: TensorFiller) -> torch.Tensor:
    """Draw values a few ulp apart."""
    return fill.integers(-3, 4).double().mul_(fill.info.eps).add_(1).mul_(fill.constant(double=True))


def _falling_steps(fill: TensorFiller) -> torch.Tensor:
    """Return values that fall in steps of 0.75 for 100 elements, and then start again at 0."""
    steps = torch.arange(math.prod(fill.shape), dtype=torch.float32, device=fill.generator.device).remainder_(100)
    return steps.mul_(-0.75).view(fill.shape)


def _draw_masked(fill: TensorFiller) -> torch.Tensor:
    """Draw normal values, with -inf for about half of them: runs of 32, as in a causal mask, and singles."""
    count = math.prod(fill.shape)
    runs = replace(fill, shape=(count // 32 + 1,)).uniform(double=False).repeat_interleave(32)[:count]
    alone = fill.uniform(double=False) < 0.1
    return fill.normal().masked_fill_(alone.logical_or_(runs.view(fill.shape) < 0.4), -math.inf)


def _draw_random_bits(fill: TensorFiller) -> torch.Tensor:
    """Draw values of random bits. Infinity and NaN become zero, because a single one would decide a whole row."""
    words = fill.integers(-(2**63), None)
    if not fill.kind.is_floating_point:
        return words.to(fill.kind)  # wraps around
    values = words.to({2: torch.int16, 4: torch.int32, 8: torch.int64}[fill.kind.itemsize]).view(fill.kind)
    return values.nan_to_num_(0.0, 0.0, 0.0)


def _draw_extreme_integers(fill: TensorFiller) -> torch.Tensor:
    """Draw the largest integer, and rarely the least."""
    rare = fill.uniform(double=False) < 0.02
    return rare.to(fill.kind).fill_(fill.info.max).masked_fill_(rare, fill.info.min)


_FLOATS: dict[str, Family] = {
    "normal": TensorFiller.normal,
    "constant": TensorFiller.constant,
    "plateau": _draw_plateau,
    "offset": lambda fill: fill.normal().add_(1000.0),
    "spread": lambda fill: fill.normal().mul_(40.0),
    "spikes": lambda fill: fill.normal().pow_(5),
    "close": _draw_close_values,
    "ladder": _falling_steps,
    "wide": _draw_every_exponent,
    # Below the smallest normal number, with zeros of both signs.
    "subnormal": lambda fill: fill.normal(double=True).mul_(fill.info.tiny / 4),
    "zeros": lambda fill: fill.signs().mul_(0.0),
    "masked": _draw_masked,
    # Far below zero, so that a zero as the initial maximum would exceed all of them.
    "low": lambda fill: _draw_masked(fill).sub_(300.0),
    "extremes": lambda fill: fill.signs(double=True).mul_(fill.info.max),
    "bits": _draw_random_bits,
}
_INTEGERS: dict[str, Family] = {
    # Few different values, so that the minimum occurs often.
    "few": lambda fill: fill.integers(-2 if fill.info.min else 0, 4),
    "bits": _draw_random_bits,
    # Close to the largest integer, with which a minimum starts.
    "highest": lambda fill: fill.integers(0, 3).neg_().add_(fill.info.max),
    "ends": _draw_extreme_integers,
}
_BOOLS: dict[str, Family] = {
    "half": lambda fill: fill.uniform() < 0.5,
    "mostly true": lambda fill: fill.uniform() < 0.98,
    "true": lambda fill: fill.uniform() < 2.0,
    "false": lambda fill: fill.uniform() < -1.0,
}
