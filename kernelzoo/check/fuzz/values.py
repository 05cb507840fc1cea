"""Named families of values for fuzzing, drawn on a device from a seed.

A family takes ``(shape, dtype, generator)``. A special value is one element of a dtype that often breaks kernels. Both
have names, so that a case can be written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo.check.bits import bits

if TYPE_CHECKING:
    import torch

DECLARED = "declared"
"""The family for an input whose operation declares its values. It needs the rest of the call;
:func:`kernelzoo.operations.sampling.as_declared` draws it."""

Family: TypeAlias = "Callable[[tuple[int, ...], torch.dtype, torch.Generator], torch.Tensor]"


def families(dtype: str) -> tuple[str, ...]:
    """Names of a dtype's families, the plainest first."""
    return tuple(_table(dtype))


def draw(family: str, shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    """Values of a named family, as a new contiguous tensor on the generator's device."""
    import torch

    kind = getattr(torch, dtype)
    return _table(dtype)[family](shape, kind, generator).to(kind)


def specials(dtype: str) -> tuple[str, ...]:
    """Names of a dtype's special values."""
    if dtype == "bool":
        return ("false", "true")
    return _SPECIAL_FLOATS if "float" in dtype else ("least", "most", "zero", "ones")


def special(name: str, dtype: str) -> int:
    """The bits of a special value, as an integer of the same width."""
    import torch

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
"""``tiny`` is the smallest normal number."""


def _table(dtype: str) -> dict[str, Family]:
    return _BOOLS if dtype == "bool" else _FLOATS if "float" in dtype else _INTEGERS


def _here(generator: torch.Generator) -> dict[str, Any]:
    return {"generator": generator, "device": generator.device}


def _normal(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.randn(shape, dtype=torch.float64 if kind.itemsize == 8 else torch.float32, **_here(generator))


def _uniform(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Values from 0 to 1."""
    import torch

    return torch.rand(shape, dtype=torch.float64 if kind.itemsize == 8 else torch.float32, **_here(generator))


def _signs(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return _uniform(shape, kind, generator).sub_(0.5).sign_()


def _wide(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Every exponent of the dtype, both signs."""
    import torch

    info = torch.finfo(kind)
    low, high = math.log2(info.tiny), math.log2(info.max)
    exponent = _uniform(shape, torch.float64, generator).mul_(high - low).add_(low)
    return exponent.exp2_().mul_(_signs(shape, torch.float64, generator)).clamp_(-info.max, info.max)


def _subnormal(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Values below the smallest normal number, with zeros of both signs."""
    import torch

    return _normal(shape, torch.float64, generator).mul_(torch.finfo(kind).tiny / 4)


def _constant(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return _normal((), kind, generator).expand(shape)


def _plateau(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Equal values and some one in 200 above them: a sum in order rounds each time the same way."""
    import torch

    low = _normal((), torch.float64, generator).abs_().neg_()
    above = torch.rand(shape, **_here(generator)) < 0.005
    return low.expand(shape).masked_fill(above, 2.0)


def _close(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Values a few ulp apart."""
    import torch

    steps = torch.randint(-3, 4, shape, **_here(generator))
    return steps.to(torch.float64).mul_(torch.finfo(kind).eps).add_(1).mul_(_normal((), torch.float64, generator))


def _ladder(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Values that fall by three quarters from element to element, over 100 elements, then again."""
    import torch

    steps = torch.arange(math.prod(shape), dtype=torch.float32, device=generator.device).remainder_(100)
    return steps.mul_(-0.75).view(shape)


def _masked(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Half -inf, in runs of 32 as in a causal mask, and single."""
    import torch

    runs = torch.rand(math.prod(shape) // 32 + 1, **_here(generator)).repeat_interleave(32)[: math.prod(shape)]
    alone = torch.rand(shape, **_here(generator)) < 0.1
    return _normal(shape, kind, generator).masked_fill_(alone.logical_or_(runs.view(shape) < 0.4), -math.inf)


def _low(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Masked values far below zero. A zero that stands for the maximum of nothing exceeds them all."""
    return _masked(shape, kind, generator).sub_(300.0)


def _extremes(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """The largest number of either sign."""
    import torch

    return _signs(shape, torch.float64, generator).mul_(torch.finfo(kind).max)


def _bits(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Any bits. Values that are not finite become zero, since one decides a whole row."""
    import torch

    words = torch.empty(shape, dtype=torch.int64, device=generator.device).random_(-(2**63), None, generator=generator)
    if not kind.is_floating_point:
        return words.to(kind)  # wraps around
    values = words.to({2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]).view(kind)
    return values.nan_to_num_(0.0, 0.0, 0.0)


def _few(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Few different integers, so that the minimum occurs often."""
    import torch

    return torch.randint(0 if torch.iinfo(kind).min == 0 else -2, 4, shape, **_here(generator))


def _highest(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """The largest integers, close to a minimum's identity."""
    import torch

    return torch.randint(0, 3, shape, **_here(generator)).neg_().add_(torch.iinfo(kind).max)


def _ends(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """The largest integers, and rarely the least."""
    import torch

    info = torch.iinfo(kind)
    full = torch.full(shape, info.max, dtype=kind, device=generator.device)
    return full.masked_fill_(torch.rand(shape, **_here(generator)) < 0.02, info.min)


def _true(share: float) -> Family:
    def draw(shape: tuple[int, ...], kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        import torch

        return torch.rand(shape, **_here(generator)) < share

    return draw


_FLOATS: dict[str, Family] = {
    "normal": _normal,
    "constant": _constant,
    "plateau": _plateau,
    "offset": lambda shape, kind, generator: _normal(shape, kind, generator).add_(1000.0),
    "spread": lambda shape, kind, generator: _normal(shape, kind, generator).mul_(40.0),
    "spikes": lambda shape, kind, generator: _normal(shape, kind, generator).pow_(5),
    "close": _close,
    "ladder": _ladder,
    "wide": _wide,
    "subnormal": _subnormal,
    "zeros": lambda shape, kind, generator: _signs(shape, kind, generator).mul_(0.0),
    "masked": _masked,
    "low": _low,
    "extremes": _extremes,
    "bits": _bits,
}
_INTEGERS: dict[str, Family] = {"few": _few, "bits": _bits, "highest": _highest, "ends": _ends}
_BOOLS: dict[str, Family] = {"half": _true(0.5), "mostly true": _true(0.98), "true": _true(2.0), "false": _true(-1.0)}
