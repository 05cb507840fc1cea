"""Double-double arithmetic, ``high + low`` of float64, for exact results of operations that round float64."""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

from kernelzoo.lazy import torch

Exact: TypeAlias = "tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]"
"""``(high + low) * 2^scale`` as (high, low, scale). None as low or scale means 0."""


def scale_by_exponent(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Return ``x * 2^exponent`` for exponents from -2000 to 2000. Exact unless the result is subnormal."""
    half = (exponent / 2).floor_()
    return x.mul(half.exp2()).mul_((exponent - half).exp2_())


def two_sum(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``a + b`` rounded, and the rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)).add_(b - part)


def two_product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``a * b`` rounded, and the rounding error (Dekker, Veltkamp)."""
    product = a * b
    a_high, a_low = _split_mantissa(a)
    b_high, b_low = _split_mantissa(b)
    return product, (a_high * b_high - product).add_(a_high * b_low).add_(a_low * b_high).add_(a_low * b_low)


def _split_mantissa(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    large = a * 134217729.0  # 2^27 + 1
    high = large - (large - a)
    return high, a - high


def sum_row_pairs(high: torch.Tensor, low: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum each row of (high, low) pairs by pairwise summation; returns the sums as a pair."""
    while high.size(1) > 1:
        if high.size(1) % 2:
            high, low = (torch.nn.functional.pad(part, (0, 0) * (part.ndim - 2) + (0, 1)) for part in (high, low))
        half = high.size(1) // 2
        low = low[:, :half] + low[:, half:]
        high, left = two_sum(high[:, :half], high[:, half:])
        low = low + left
    return two_sum(high, low)


_STEPS = 256
"""Entries of the table of 2^(j / _STEPS)."""


@functools.cache
def _power_table() -> tuple[list[float], list[float], list[float]]:
    """Return 2^(j / _STEPS) as highs and lows, and log(2) / _STEPS as three terms. Terms one and two have 32 bits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        log2 = Decimal(2).ln()
        powers = [(log2 * j / _STEPS).exp() for j in range(_STEPS)]
        high = [float(power) for power in powers]
        low = [float(power - Decimal(h)) for power, h in zip(powers, high, strict=True)]
        step, parts = log2 / _STEPS, []
        for unit in (2.0**41, 2.0**74):
            part = math.floor(step * Decimal(unit)) / unit
            parts.append(part)
            step -= Decimal(part)
        return high, low, [*parts, float(step)]


def exponential(t: torch.Tensor, t_low: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ``e^(t + t_low)`` as high, low and scale, with a relative error below 2^-60.

    The argument is reduced by n * log(2) / 256 to r, below 2^-9. Powers of r from r^2 on are below 2^-18, and need
    only float64. The factor 2^(n / 256) is a pair from a table, times 2^scale.
    """
    high, low, (c1, c2, c3) = _power_table()
    n = (t * (_STEPS / math.log(2))).add_(0.5).floor_()
    r, r_low = two_sum(t - n * c1, n * -c2)
    r, r_low = two_sum(r, r_low.add_(t_low).sub_(n * c3))
    tail = r / 5040  # r^2/2 + ... + r^7/5040, by Horner's scheme
    for factorial in (720, 120, 24, 6, 2):
        tail = tail.add_(1 / factorial).mul_(r)
    tail = tail.mul_(r)
    q = r + (r_low + tail)
    place = n.remainder(_STEPS)
    scale = (n - place).div_(_STEPS)
    index = place.to(torch.int64)
    t_high = torch.tensor(high, dtype=torch.float64, device=t.device)[index]
    e, e_low = two_sum(t_high, torch.tensor(low, dtype=torch.float64, device=t.device)[index].add_(t_high * q))
    return e, e_low, scale
