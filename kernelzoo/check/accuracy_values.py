"""The values that accuracy is measured on: rows of many kinds and lengths, along the last axis and the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kernelzoo import operations
from kernelzoo.check.bits import bits
from kernelzoo.check.fuzz import values as fuzz_values

if TYPE_CHECKING:
    import torch


LENGTHS = (7, 33, 128, 781, 2048, 4097, 50257, 262144, 2**20)
"""Rows along the last axis: short, odd, a vocabulary, long."""

ACROSS = (33, 781, 4097)
"""Rows along the first axis, side by side."""

_AT_ONCE = 2**22
"""Elements of a problem: 32 MB in float64, and some thirty such at the most."""

Family: TypeAlias = "Callable[[torch.Tensor, torch.Generator, torch.dtype], torch.Tensor]"
"""Makes rows of values out of standard normal ones of shape (rows, length), in float64."""


def _index(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.arange(x.size(1), dtype=torch.float64, device=x.device)


def _uniform(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=generator)


def _deepest(kind: torch.dtype) -> float:
    """How far below the maximum an element's exponential is next to nothing in that dtype."""
    import torch

    info = torch.finfo(kind)
    return -math.log(info.tiny * info.eps) + 2


def _one_above(x: torch.Tensor, above: torch.Tensor | float) -> torch.Tensor:
    """The first element of each row that much above the others."""
    x = x.clone()
    x[:, :1] += above
    return x


FAMILIES: dict[str, Family] = {
    "normal": lambda x, generator, kind: x,
    "wide": lambda x, generator, kind: _uniform(x, generator).mul_(100).sub_(50),
    # A few units in the last place around one value, and one value alone: sums of equal terms, whose errors add up,
    # and quotients of one and a length, which fall between two numbers of a half precision.
    "near-equal": lambda x, generator, kind: x.mul(_eps(kind)).add_(1).mul_(x[:, :1] + 3),
    "equal": lambda x, generator, kind: x[:, :1].expand(x.shape),
    "equal below one": lambda x, generator, kind: _one_above(x[:, :1].expand(x.shape), x[:, :1].abs() + 0.5),
    "dominant": lambda x, generator, kind: _one_above(x, 30.0),
    "offset": lambda x, generator, kind: x + 10000.0,
    "negative offset": lambda x, generator, kind: x - 10000.0,
    "subnormal": lambda x, generator, kind: _one_above(_uniform(x, generator).mul_(-_deepest(kind)), 2.0),
    "ladder up": lambda x, generator, kind: _index(x).remainder(1000).mul_(0.01).expand(x.shape),
    "ladder down": lambda x, generator, kind: _index(x).remainder_(200).mul_(-0.125).expand(x.shape),
    "masked": lambda x, generator, kind: x.masked_fill(_uniform(x, generator) < 0.5, -math.inf),
    # Large terms between small ones, each of which a running sum rounds away in another direction.
    "two scales": lambda x, generator, kind: x * 0.1 - 12.0 * _index(x).remainder_(2),
    # Powers of two in their order: the terms double, or halve, as far as the dtype goes.
    "halving": lambda x, generator, kind: _index(x).remainder_(40).mul_(-math.log(2)) + x * _eps(kind),
}
"""What an operation that rounds is tried on, by name."""


def _eps(kind: torch.dtype) -> float:
    import torch

    return float(torch.finfo(kind).eps)


@dataclass(frozen=True)
class Problem:
    """Rows of one family and length, along the last axis or the first."""

    family: str
    length: int
    dim: int
    rows: int
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.length) if self.dim == -1 else (self.length, self.rows)


def problems(op: str, dtype: str, values: int, seed: int) -> Iterator[Problem]:
    """Problems of about so many values in all, each family and length having the same share of them."""
    names = tuple(FAMILIES) if operations.OPERATIONS[op].rounds else fuzz_values.families(dtype)
    kinds = [(length, -1) for length in LENGTHS] + [(length, 0) for length in ACROSS]
    share = values / len(names) / len(kinds)
    number = 0
    for family in names:
        for length, dim in kinds:
            rows = round(share / length)
            if not rows:  # not one is in their share: one for several families then
                rows = int(number % round(length / share) == 0)
            number += 1
            while rows > 0:
                part = min(rows, max(1, _AT_ONCE // length))
                yield Problem(family, length, dim, part, seed + number * 1009 + rows)
                rows -= part


def draw(problem: Problem, op: str, dtype: str, generator: torch.Generator) -> torch.Tensor:
    """The input of a problem, the same for the same seed of the generator."""
    import torch

    kind = getattr(torch, dtype)
    if not operations.OPERATIONS[op].rounds:
        x = fuzz_values.draw(problem.family, problem.shape, dtype, generator)
        rows = x if problem.dim == -1 else x.t()
        flat = bits(x).view(problem.shape)
        spread = flat if problem.dim == -1 else flat.t()
        for number, name in enumerate(fuzz_values.specials(dtype)):
            # One of each kind in every sixteenth row or so, where there are as many rows.
            spread[number::16, problem.seed % rows.size(1)] = fuzz_values.special(name, dtype)
        return x
    normal = torch.randn(
        (problem.rows, problem.length), dtype=torch.float64, device=generator.device, generator=generator
    )
    drawn = FAMILIES[problem.family](normal, generator, kind).to(kind)
    return (drawn if problem.dim == -1 else drawn.t()).contiguous()
