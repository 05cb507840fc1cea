"""Accuracy: the error of every element of a result, in units in the last place, over many values of many kinds.

**A unit in the last place (ulp)** is that of the output's dtype at the exact value y, before y is rounded: with p bits
of precision and the smallest normal number 2^e, it is 2^(max(floor(log2 |y|), e) - p + 1). So below the smallest normal
number, zero included, it is the smallest subnormal number. The error is ``|result - y| / ulp``: a correctly rounded
result is at most 0.5 off. A NaN where none is due, an infinity, or no NaN where one is due, is infinitely far off.

**The exact value** is what the operation says (:meth:`kernelzoo.operations.Operation.exact`): in float64 for the three
narrower dtypes, within some 2^-50 of itself, a millionth of a ulp of float32; for float64 in pairs of float64, within
2^-60 of itself, a hundredth of a ulp; an operation that has no such pairs is not measured in float64. Where an
operation rounds nothing, its elements are right or wrong. Errors in ulp are those of the first output; of all others an
element is within the contract's bounds or wrong.

**Where results are subnormal** the contract lets them flush to zero, which is up to 2^(p-1) ulp. So ``worst``, the mean
and the percentile are over the elements whose exact value is a normal number, and the others have a worst of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kernelzoo import operations, registry
from kernelzoo.check.accuracy_values import Problem, draw, problems
from kernelzoo.check.bits import bits
from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.operations import Arguments, Bounds
from kernelzoo.operations.declared import ROW
from kernelzoo.operations.exact import scaled

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch


def torch_id(op: str) -> str:
    """The id of torch's own function, which is measured with every operation that rounds; "" if there is none."""
    operation = operations.OPERATIONS[op]
    return f"torch.{operation.in_torch}" if operation.rounds and operation.in_torch else ""


def is_torchs(id: str) -> bool:
    """Whether an id is that of a function of torch's own, and not of an implementation."""
    return "/" not in id


def dtypes(op: str) -> tuple[str, ...]:
    """Dtypes in which an operation's errors can be known: one that rounds must say its result exactly enough."""
    operation = operations.OPERATIONS[op]
    return operation.exact_dtypes if operation.rounds else operation.dtypes


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
    if dtype not in dtypes(op):
        return []
    tallies = [Tally(id, op, dtype) for id in ids]
    generator = torch.Generator(device)
    for problem in problems(op, dtype, values, seed):
        progress("")
        inputs = draw(problem, op, dtype, generator.manual_seed(problem.seed))
        truth = Truth(operation, operation.arguments(inputs, problem.dim), problem)
        for tally in tallies:
            if not tally.unavailable:
                progress(tally.id)
                _run(tally, truth)
    return [tally.row() for tally in tallies]


def _run(tally: Tally, truth: Truth) -> None:
    """Run one problem through one implementation, twice, and count the errors."""
    import torch

    outs = truth.operation.allocate(truth.args)
    started = time.perf_counter()
    try:
        launch = _bound(truth, tally.id, outs)
        results = []
        for turn in range(2):
            for out in outs:
                bits(out).fill_(0x55 if turn else 0x2A)
            launch()
            results.append([out.clone() for out in outs])
    except UnsupportedProblemError:
        tally.refused += 1
        return
    except BackendUnavailableError as error:
        tally.unavailable = str(error)
        return
    tally.same_bits &= all(torch.equal(bits(first), bits(second)) for first, second in zip(*results, strict=True))
    tally.problems += 1
    tally.values += sum(x.numel() for x in truth.args.inputs)
    truth.count(tally, results[0])
    tally.seconds += time.perf_counter() - started


def _bound(truth: Truth, id: str, outs: Sequence[torch.Tensor]) -> Launch:
    if is_torchs(id):
        import torch

        (out,) = outs
        function = getattr(torch, truth.operation.in_torch)
        return lambda: void(function(truth.args.x, truth.problem.dim, out=out))
    with on_device_of(truth.args.x):
        return registry.implementation(id).launch_checked(truth.args, outs)


class Truth:
    """The right results of one problem: of the first output to a fraction of a ulp if it is rounded, of the others what
    the contract allows."""

    def __init__(self, operation: operations.Operation, args: Arguments, problem: Problem) -> None:
        self.operation, self.args, self.problem = operation, args, problem
        is_float = operation.out_dtypes(args)[0].is_floating_point
        self._rounded = Rounded(operation, args, problem) if operation.rounds and is_float else None
        alone = self._rounded is not None and len(operation.outputs) == 1
        self._bounds = () if alone else operation.expect(args).outputs[self._rounded is not None :]

    def count(self, tally: Tally, results: Sequence[torch.Tensor]) -> None:
        """Add the errors of the results of a call."""
        if self._rounded is not None:
            self._rounded.count(tally, results[0])
        for bounds, result in zip(self._bounds, results[self._rounded is not None :], strict=True):
            tally.wrong += int(_outside(bounds, result).sum())


def _outside(bounds: Bounds, result: torch.Tensor) -> torch.Tensor:
    """What is not within bounds, and not NaN where it must be."""
    right = (result >= bounds.lower) & (result <= bounds.upper)
    return ~right & ~((result != result) & (bounds.lower != bounds.lower))


class Rounded:
    """The exact first output of one problem, as ``(high + low) * 2^scale``, and the ulp there, at the same scale."""

    def __init__(self, operation: operations.Operation, args: Arguments, problem: Problem) -> None:
        import torch

        self._operation, self._problem = operation, problem
        # Rows along the last axis of x, whose matrices are all (rows, length).
        self._turns = [operation.by_rows and problem.dim == 0 and names == ROW for names in operation.axes]
        if operation.by_rows and problem.dim == 0:
            inputs = zip(args.inputs, self._turns, strict=False)
            args = replace(args, inputs=tuple(x.t() if turn else x for x, turn in inputs), dims=(1,))
        self._args = args
        self._high, self._low, self._scale = operation.exact(args)
        info = torch.finfo(operation.out_dtypes(args)[0])
        bits_of = round(-math.log2(info.eps))
        least = round(math.log2(info.tiny))
        exponent = torch.frexp(self._high).exponent.to(torch.float64).sub_(1)
        exponent = exponent.where(self._high.abs() > 0, -math.inf)  # of zero
        if self._scale is not None:
            exponent = exponent.add_(self._scale)
        self._nan = self._high != self._high
        self._bounded = self._exact().abs() > 0.99 * info.max
        """Where no error in ulp is counted, and the result is within the contract's bounds or wrong: next to infinity,
        and where the operation has a rule of its own for special values."""
        self._bounds: Bounds | None = None
        if "special" in operation.hooks or bool(self._bounded.any()):
            self._bounds = operation.expect(args).outputs[0]
            lower, upper = (bound.view_as(self._high) for bound in (self._bounds.lower, self._bounds.upper))
            self._bounded |= lower.isinf() | upper.isinf() | (lower.isnan() != self._nan)
        self._is_normal = (exponent >= least) & ~self._bounded
        unit = exponent.clamp_(min=least).sub_(bits_of)
        self._unit = scaled(torch.ones_like(unit), unit if self._scale is None else unit.sub_(self._scale))

    def _exact(self) -> torch.Tensor:
        """The exact result as float64 says it."""
        return self._high if self._scale is None else scaled(self._high, self._scale)

    def count(self, tally: Tally, result: torch.Tensor) -> None:
        """Add the errors of a result."""
        import torch

        turned = result.t() if self._turns[len(self._args.inputs)] else result
        rows = turned.double().view_as(self._high)
        if self._scale is not None:
            rows = scaled(rows, -self._scale)
        off = rows.sub(self._high)
        if self._low is not None:
            off.sub_(self._low)
        ulps = off.abs_().div_(self._unit)
        # NaN must meet NaN; what is not a number otherwise is infinitely far off.
        ulps = torch.where(self._nan, torch.where(rows != rows, 0.0, math.inf), ulps.nan_to_num_(math.inf, math.inf))
        allowed = self._allowed()
        tally.wrong += int(((ulps > allowed) & ~self._bounded).sum())
        if self._bounds is not None:
            tally.wrong += int((_outside(self._bounds, turned).view_as(ulps) & self._bounded).sum())
        normal = ulps[self._is_normal]
        if normal.numel():
            worst = float(normal.max())
            if worst > tally.worst or not tally.worst_at:
                at = ulps.where(self._is_normal, -1.0).argmax()
                problem = self._problem
                tally.worst = worst
                tally.worst_at = {
                    "family": problem.family,
                    "length": problem.length,
                    "dim": problem.dim,
                    "allowed": float(allowed.flatten()[at]),
                }
            tally.total += float(normal.sum())
            tally.normal += normal.numel()
            binned = normal.mul_(_BINS).clamp_(max=_HIGHEST * _BINS - 1).to(torch.int64)
            counts = torch.bincount(binned, minlength=_HIGHEST * _BINS)
            tally.histogram = counts if tally.histogram is None else tally.histogram + counts
        subnormal = ~self._is_normal & ~self._nan & ~self._bounded
        tally.worst_subnormal = max(tally.worst_subnormal, float(ulps.where(subnormal, 0.0).max()))

    def _allowed(self) -> torch.Tensor:
        """The contract's allowance for each element, in ulp."""
        allowed = self._operation.allowance(self._args, self._exact())
        if self._scale is not None:
            allowed = scaled(allowed, -self._scale)
        return allowed.div_(self._unit).nan_to_num_(0.0, math.inf)
