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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelzoo import operations, registry
from kernelzoo.check.accuracy_values import Problem, draw, problems
from kernelzoo.check.bits import bits
from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.operations.exact import scaled

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch


def torch_id(op: str) -> str:
    """The id of torch's own function, which is measured with every operation that rounds."""
    return f"torch.{operations.OPERATIONS[op].in_torch}"


TORCH = torch_id(next(op.name for op in operations.OPERATIONS.values() if op.rounds))


_BINS = 64
"""Of the histogram of errors, to one ulp."""

_HIGHEST = 1024
"""Ulp at which the histogram ends; what is farther off is counted there."""


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
        x = draw(problem, op, dtype, generator.manual_seed(problem.seed))
        truth = (Rounded if operation.rounds else Equal)(operation, x, problem)
        for tally in tallies:
            if not tally.unavailable:
                progress(tally.id)
                _run(tally, x, problem, truth)
    return [tally.row() for tally in tallies]


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
