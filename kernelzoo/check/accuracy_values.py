"""The inputs for accuracy: rows of many kinds and lengths, along the last axis and the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kernelzoo import operations
from kernelzoo.check.bits import bits
from kernelzoo.check.fuzz import values as fuzz_values
from kernelzoo.lazy import torch

LENGTHS = (7, 33, 128, 781, 2048, 4097, 50257, 262144, 2**20)
"""Lengths along the last axis: short, odd, a vocabulary, long."""

ACROSS = (33, 781, 4097)
"""Lengths along the first axis."""

_AT_ONCE = 2**22
"""The most elements of a problem: 32 MB in float64. There are about thirty such tensors at once."""

_FEW = 33
"""Size of a named axis, unless it is the first or last axis of the first input."""

Family: TypeAlias = "Callable[[torch.Tensor, fuzz_values.TensorFiller], torch.Tensor]"
"""A function that makes float64 rows from normal values (rows, length) and the ``TensorFiller`` that drew them."""


def _column_indices(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.size(1), dtype=torch.float64, device=x.device)


def _add_to_first_column(x: torch.Tensor, increment: torch.Tensor | float) -> torch.Tensor:
    x = x.clone()
    x[:, :1] += increment
    return x


FAMILIES: dict[str, Family] = {
    "normal": lambda x, fill: x,
    "wide": lambda x, fill: fill.uniform(double=True).mul_(100).sub_(50),
    # Values a few ulp apart, and equal values. In a sum of equal terms, rounding errors add up. The result 1 / length
    # lies between two numbers of half precision.
    "near-equal": lambda x, fill: x.mul(fill.info.eps).add_(1).mul_(x[:, :1] + 3),
    "equal": lambda x, fill: x[:, :1].expand(x.shape),
    "equal below one": lambda x, fill: _add_to_first_column(x[:, :1].expand(x.shape), x[:, :1].abs() + 0.5),
    "dominant": lambda x, fill: _add_to_first_column(x, 30.0),
    "offset": lambda x, fill: x + 10000.0,
    "negative offset": lambda x, fill: x - 10000.0,
    # Values down to where an exponential underflows.
    "subnormal": lambda x, fill: _add_to_first_column(
        fill.uniform(double=True).mul_(math.log(fill.info.tiny * fill.info.eps) - 2), 2.0
    ),
    "ladder up": lambda x, fill: _column_indices(x).remainder(1000).mul_(0.01).expand(x.shape),
    "ladder down": lambda x, fill: _column_indices(x).remainder_(200).mul_(-0.125).expand(x.shape),
    "masked": lambda x, fill: x.masked_fill(fill.uniform(double=True) < 0.5, -math.inf),
    # Large terms between small ones, which a running sum rounds in different directions.
    "two scales": lambda x, fill: x * 0.1 - 12.0 * _column_indices(x).remainder_(2),
    # Powers of two in order: the terms halve as far as the dtype goes.
    "halving": lambda x, fill: _column_indices(x).remainder_(40).mul_(-math.log(2)) + x * fill.info.eps,
}
"""Families of values for the first input of an operation that rounds, by name."""

SAMPLE = "sample"
"""The family of inputs that the operation itself samples, if no other family applies."""


@dataclass(frozen=True)
class Problem:
    """Rows of one length, with values of one family (see FAMILIES), along either axis; or tensors with named axes."""

    family: str
    length: int
    dim: int
    rows: int
    seed: int
    named: tuple[int, ...] = ()
    """The shape of the first input, if it has named axes."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Sizes of the axes that the first input does not have."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.named or ((self.rows, self.length) if self.dim == -1 else (self.length, self.rows))


def _usable_value_families(op: operations.Operation, dtype: str) -> tuple[str, ...]:
    first, *others = op.inputs.values()
    if not op.by_rows or first.low is not None or first.high is not None:
        return (SAMPLE,)
    if not op.rounds:
        return (SAMPLE,) if others else fuzz_values.families_of_dtype(dtype)
    return tuple(FAMILIES) if dtype in operations.FLOATS else (SAMPLE,)


def problems(op: str, dtype: str, values: int, seed: int) -> Iterator[Problem]:
    """Yield problems with about ``values`` input elements in total, divided evenly among families and lengths."""
    operation = operations.OPERATIONS[op]
    if not operation.by_rows:
        yield from _named_axis_problems(operation, values, seed)
        return
    names = _usable_value_families(operation, dtype)
    kinds = [(length, -1) for length in LENGTHS] + [(length, 0) for length in ACROSS]
    share = values / len(names) / len(kinds)
    number = 0
    for family in names:
        for length, dim in kinds:
            rows = round(share / length)
            if not rows:  # too few values for one row of each family: share them
                rows = int(number % round(length / share) == 0)
            number += 1
            while rows > 0:
                part = min(rows, max(1, _AT_ONCE // length))
                yield Problem(family, length, dim, part, seed + number * 1009 + rows)
                rows -= part


def _named_axis_problems(operation: operations.Operation, values: int, seed: int) -> Iterator[Problem]:
    """Yield a problem for each length of the first input's last axis. The first axis is long, all others are short."""
    axes = operation.axes[0]
    lengths = [int(axes[-1])] if axes[-1].isdigit() else [length for length in LENGTHS if length <= 4097]
    for number, length in enumerate(lengths):
        known = {axis: int(axis) if axis.isdigit() else _FEW for axis in (*axes, *operation.extra_axes)}
        known = operation.clamp_sizes({**known, axes[-1]: length})
        length = known[axes[-1]]
        if len(axes) > 1 and not axes[0].isdigit() and axes[0] != axes[-1]:
            others = math.prod(known[axis] for axis in axes[1:])
            known[axes[0]] = max(1, min(values // len(lengths), _AT_ONCE) // others)
            known = operation.clamp_sizes(known)
        shape = tuple(known[axis] for axis in axes)
        further = tuple((axis, known[axis]) for axis in operation.extra_axes)
        yield Problem(SAMPLE, length, -1, math.prod(shape) // length, seed + number * 1009, shape, further)


def draw_inputs(problem: Problem, op: str, dtype: str, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Draw the inputs of a problem. The same seed of the generator gives the same inputs."""
    operation = operations.OPERATIONS[op]
    if problem.family == SAMPLE or len(operation.inputs) > 1:
        sizes = dict(problem.sizes)
        sampled = operation.sample(problem.shape, dtype, problem.dim, generator=generator, sizes=sizes)
        if problem.family == SAMPLE:
            return sampled
        return _draw_first(problem, operation, dtype, generator), *sampled[1:]
    return (_draw_first(problem, operation, dtype, generator),)


def _draw_first(problem: Problem, op: operations.Operation, dtype: str, generator: torch.Generator) -> torch.Tensor:
    """Draw the first input of an operation that works on each row of a tensor by itself."""
    kind = getattr(torch, dtype)
    if not op.rounds:
        x = fuzz_values.draw(problem.family, problem.shape, dtype, generator)
        rows = x if problem.dim == -1 else x.t()
        flat = bits(x).view(problem.shape)
        spread = flat if problem.dim == -1 else flat.t()
        for number, name in enumerate(fuzz_values.specials(dtype)):
            # One special value of each kind in about every sixteenth row.
            spread[number::16, problem.seed % rows.size(1)] = fuzz_values.bits_of(name, dtype)
        return op.clamp_to_domain(0, x, problem.length)
    fill = fuzz_values.TensorFiller((problem.rows, problem.length), kind, generator)
    drawn = FAMILIES[problem.family](fill.normal(double=True), fill).to(kind)
    return op.clamp_to_domain(0, (drawn if problem.dim == -1 else drawn.t()).contiguous(), problem.length)
