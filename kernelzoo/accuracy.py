"""Accuracy: the error of every element of a result, in units in the last place, over many values of many kinds.

**A unit in the last place (ulp)** is that of the output's dtype at the exact value y, before y is rounded: with p bits
of precision and the smallest normal number 2^e, it is 2^(max(floor(log2 y), e) - p + 1). So below the smallest normal
number, zero included, it is the smallest subnormal number. The error is ``|result - y| / ulp``: a correctly rounded
result is at most 0.5 off. A NaN where none is due, an infinity, or no NaN where one is due, is infinitely far off.

**The exact value** is what the operation says (:meth:`kernelzoo.operations.Operation.exact`): in float64 for the three
narrower dtypes, within some 2^-50 of itself, a millionth of a ulp of float32; for float64 in pairs of float64, within
2^-60 of itself, a hundredth of a ulp. Where an operation rounds nothing, its elements are right or wrong.

**Where results are subnormal** the contract lets them flush to zero, which is up to 2^(p-1) ulp. So ``worst``, the mean
and the percentile are over the elements whose exact value is a normal number, and the others have a worst of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo import fuzz_values, operations, registry
from kernelzoo.conformance import bits
from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.operations.exact import scaled

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch


def torch_id(op: str) -> str:
    """The id of what torch itself returns, whatever its eager variant makes of it; beside all that rounds."""
    return f"torch.{operations.OPERATIONS[op].in_torch}"


TORCH = torch_id(next(op.name for op in operations.OPERATIONS.values() if op.rounds))


LENGTHS = (7, 33, 128, 781, 2048, 4097, 50257, 262144, 2**20)
"""Rows along the last axis: short, odd, a vocabulary, long."""

ACROSS = (33, 781, 4097)
"""Rows along the first axis, side by side."""

_AT_ONCE = 2**22
"""Elements of a problem: 32 MB in float64, and some thirty such at the most."""

_BINS = 64
"""Of the histogram of errors, to one ulp."""

_HIGHEST = 1024
"""Ulp at which the histogram ends; what is farther off is counted there."""

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


@dataclass
class Tally:
    """What is known of one implementation and dtype so far."""

    id: str
    op: str
    dtype: str
    values: int = 0
    """Elements of the inputs."""
    problems: int = 0
    refused: int = 0
    """Problems that this variant can't take."""
    wrong: int = 0
    """Elements beyond the contract's allowance, or a NaN, an infinity or an element that must be equal and is not."""
    worst: float = 0.0
    worst_at: dict[str, Any] = field(default_factory=dict)
    """The problem in which the worst error was, and the contract's allowance in ulp for that element."""
    worst_subnormal: float = 0.0
    total: float = 0.0
    normal: int = 0
    """Elements that the mean and the percentile are of."""
    histogram: Any = None
    same_bits: bool = True
    seconds: float = 0.0
    unavailable: str = ""

    def row(self) -> dict[str, Any]:
        """As a row of the record; what an operation that rounds nothing has not is None."""
        rounds = operations.OPERATIONS[self.op].rounds and self.normal > 0
        return {
            "id": self.id,
            "op": self.op,
            "dtype": self.dtype,
            "values": self.values,
            "problems": self.problems,
            "refused": self.refused,
            "wrong": self.wrong,
            "worst_ulp": self.worst if rounds else None,
            "allowed_ulp_there": self.worst_at.get("allowed") if rounds else None,
            "worst_family": self.worst_at.get("family") if rounds else None,
            "worst_length": self.worst_at.get("length") if rounds else None,
            "worst_dim": self.worst_at.get("dim") if rounds else None,
            "mean_ulp": self.total / self.normal if rounds else None,
            "p9999_ulp": self._percentile(0.9999) if rounds else None,
            "worst_subnormal_ulp": self.worst_subnormal if rounds else None,
            "same_bits": self.same_bits,
            "seconds": round(self.seconds, 3),
            "unavailable": self.unavailable,
        }

    def _percentile(self, share: float) -> float:
        """The upper edge of the bin that it is in."""
        counts = self.histogram.cumsum(0)
        return float((counts < share * counts[-1]).sum() + 1) / _BINS


def measure(
    op: str,
    dtype: str,
    ids: Sequence[str],
    values: int,
    seed: int,
    device: torch.device,
    *,
    progress: Callable[[str], None] = lambda id: None,
) -> list[dict[str, Any]]:
    """Rows for implementations of one operation and dtype, on the same values; see :meth:`Tally.row`.

    Each problem is run twice, over outputs that held something else. ``progress`` is told who is next.
    """
    import torch

    operation = operations.OPERATIONS[op]
    tallies = [Tally(id, op, dtype) for id in ids]
    generator = torch.Generator(device)
    for problem in problems(op, dtype, values, seed):
        progress("")
        x = _input(op, problem, dtype, generator.manual_seed(problem.seed))
        truth = (Rounded if operation.rounds else Equal)(operation, x, problem)
        for tally in tallies:
            if not tally.unavailable:
                progress(tally.id)
                _run(tally, x, problem, truth)
    return [tally.row() for tally in tallies]


def _input(op: str, problem: Problem, dtype: str, generator: torch.Generator) -> torch.Tensor:
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


def _run(tally: Tally, x: torch.Tensor, problem: Problem, truth: Rounded | Equal) -> None:
    """Run one problem through one implementation, twice, and count the errors."""
    import torch

    operation = operations.OPERATIONS[tally.op]
    out = operation.allocate(x, operation.check(x, problem.dim), False)
    started = time.perf_counter()
    try:
        launch = _bound(operation, tally.id, x, problem.dim, out)
        results = []
        for turn in range(2):
            bits(out).fill_(0x55 if turn else 0x2A)
            launch()
            results.append(out.clone())
    except UnsupportedProblemError:
        tally.refused += 1
        return
    except BackendUnavailableError as error:
        tally.unavailable = str(error)
        return
    tally.same_bits &= torch.equal(bits(results[0]), bits(results[1]))
    tally.problems += 1
    tally.values += x.numel()
    truth.count(tally, results[0])
    tally.seconds += time.perf_counter() - started


def _bound(operation: operations.Operation, id: str, x: torch.Tensor, dim: int, out: torch.Tensor) -> Launch:
    if "/" not in id:
        import torch

        return lambda: void(getattr(torch, operation.in_torch)(x, dim, out=out))
    with on_device_of(x):
        return registry.implementation(id).launch(x, dim=dim, out=out)


class Equal:
    """The right result of one problem, for an operation that rounds nothing."""

    def __init__(self, operation: operations.Operation, x: torch.Tensor, problem: Problem) -> None:
        self._expected = operation.expect(x, problem.dim)

    def count(self, tally: Tally, result: torch.Tensor) -> None:
        """Count what is not equal by value, and not NaN where it must be."""
        lower = self._expected.lower
        tally.wrong += int(((result != lower) & ~((result != result) & (lower != lower))).sum())


class Rounded:
    """The exact result of one problem, as ``(high + low) * 2^scale``, and the ulp there, at the same scale.

    Of an operation that rounds: its output has x's shape.
    """

    def __init__(self, operation: operations.Operation, x: torch.Tensor, problem: Problem) -> None:
        import torch

        self._operation, self._problem = operation, problem
        rows = x if problem.dim == -1 else x.t()
        self._high, self._low, self._scale = operation.exact(rows)
        info = torch.finfo(x.dtype)
        bits_of = round(-math.log2(info.eps))
        least = round(math.log2(info.tiny))
        exponent = torch.frexp(self._high).exponent.to(torch.float64).sub_(1)
        exponent = exponent.where(self._high > 0, -math.inf)  # of zero
        if self._scale is not None:
            exponent = exponent.add_(self._scale)
        self._is_normal = exponent >= least
        unit = exponent.clamp_(min=least).sub_(bits_of)
        self._unit = scaled(torch.ones_like(unit), unit if self._scale is None else unit.sub_(self._scale))
        self._nan = self._high != self._high
        self._rows = rows

    def count(self, tally: Tally, result: torch.Tensor) -> None:
        """Add the errors of a result."""
        import torch

        rows = (result if self._problem.dim == -1 else result.t()).double()
        if self._scale is not None:
            rows = scaled(rows, -self._scale)
        off = rows.sub(self._high)
        if self._low is not None:
            off.sub_(self._low)
        ulps = off.abs_().div_(self._unit)
        # NaN must meet NaN; what is not a number otherwise is infinitely far off.
        ulps = torch.where(self._nan, torch.where(rows != rows, 0.0, math.inf), ulps.nan_to_num_(math.inf, math.inf))
        tally.wrong += int((ulps > self._allowed()).sum())
        normal = ulps[self._is_normal]
        if normal.numel():
            worst = float(normal.max())
            if worst > tally.worst or not tally.worst_at:
                at = ulps.where(self._is_normal, -1.0).argmax()
                allowed = float(self._allowed().flatten()[at])
                problem = self._problem
                tally.worst = worst
                tally.worst_at = {
                    "family": problem.family,
                    "length": problem.length,
                    "dim": problem.dim,
                    "allowed": allowed,
                }
            tally.total += float(normal.sum())
            tally.normal += normal.numel()
            binned = normal.mul_(_BINS).clamp_(max=_HIGHEST * _BINS - 1).to(torch.int64)
            counts = torch.bincount(binned, minlength=_HIGHEST * _BINS)
            tally.histogram = counts if tally.histogram is None else tally.histogram + counts
        tally.worst_subnormal = max(tally.worst_subnormal, float(ulps.where(~self._is_normal & ~self._nan, 0.0).max()))

    def _allowed(self) -> torch.Tensor:
        """The contract's allowance for each element, in ulp."""
        import torch

        relative, floor = self._operation.allowance(self._rows, 1)
        ground = torch.full_like(self._unit, floor)
        if self._scale is not None:
            ground = scaled(ground, -self._scale)
        return relative.mul_(self._high).add_(ground).div_(self._unit).nan_to_num_(0.0, math.inf)
