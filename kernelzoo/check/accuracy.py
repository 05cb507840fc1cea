"""Accuracy: the error of every element of a result in ulp, over many kinds of values.

**A unit in the last place (ulp)** is that of the output's dtype at the exact, unrounded value y. With p bits
of precision and the smallest normal number 2^e, it is 2^(max(floor(log2 |y|), e) - p + 1). Below the smallest normal
number, and at zero, it is the smallest subnormal number. The error is ``|result - y| / ulp``, at most 0.5 if correctly
rounded. A wrong NaN, a missing NaN and a wrong infinity count as infinitely far off.

**The exact value** comes from the operation (:meth:`kernelzoo.operations.Operation.exact`). For the three narrower
dtypes it is a float64, with a relative error of about 2^-50: a millionth of a float32 ulp. For float64 it is the sum of
two float64, with a relative error of 2^-60: a hundredth of an ulp. Without such a sum, an operation is not measured in
float64. Errors are counted in ulp if the operation rounds, for its first output. Any other output is right or wrong.

**Subnormal results** may flush to zero, an error of up to 2^(p-1) ulp. So ``worst``, the mean and the percentile cover
only elements whose exact value is normal. The others have a separate worst error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelzoo import operations, registry
from kernelzoo.check.accuracy_values import Problem, draw_inputs, problems
from kernelzoo.check.bits import bits
from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, OperationError, UnsupportedProblemError
from kernelzoo.launch import Launch, void
from kernelzoo.lazy import torch
from kernelzoo.operations import Arguments, Bounds
from kernelzoo.operations.declared import ROW
from kernelzoo.operations.exact import scale_by_exponent


def torch_id(op: str) -> str:
    """Return the id of torch's function for an operation; "" if there is none, or if the operation rounds nothing."""
    operation = operations.OPERATIONS[op]
    return f"torch.{operation.in_torch}" if operation.rounds and operation.in_torch else ""


def is_torch_id(id: str) -> bool:
    """Whether an id names a function of torch, not an implementation."""
    return "/" not in id


def dtypes(op: str) -> tuple[str, ...]:
    """Return the dtypes in which errors can be measured. An operation that rounds must define its exact result."""
    operation = operations.OPERATIONS[op]
    return operation.exact_dtypes if operation.rounds else operation.dtypes


_BINS = 64
"""The number of bins of the error histogram per ulp."""

_ERRORS = (
    *("worst_ulp", "allowed_ulp_there", "worst_family", "worst_length", "worst_dim"),
    *("mean_ulp", "p9999_ulp", "worst_subnormal_ulp"),
)
"""Keys of a row that describe the first output of an operation that rounds."""

_HIGHEST = 1024
"""The end of the histogram in ulp. Larger errors count in its last bin."""


@dataclass
class Tally:
    """The errors of one implementation and dtype, summed up over problems."""

    id: str
    op: str
    dtype: str
    values: int = 0
    """The number of elements of the inputs."""
    problems: int = 0
    refused: int = 0
    wrong: int = 0
    """The number of elements beyond the allowed error, or with a wrong NaN, infinity or exact value."""
    worst: float = 0.0
    worst_at: dict[str, Any] = field(default_factory=dict)
    """The problem with the worst error, and the allowed error of the worst element in ulp."""
    worst_subnormal: float = 0.0
    total: float = 0.0
    normal: int = 0
    """The number of elements whose exact value is normal. The mean and the percentile cover these."""
    histogram: Any = None
    same_bits: bool = True
    seconds: float = 0.0
    unavailable: str = ""

    def row(self) -> dict[str, Any]:
        """Return the totals as a row of the accuracy record. Errors in ulp are None if the operation rounds nothing."""
        errors: dict[str, Any] = dict.fromkeys(_ERRORS)
        if operations.OPERATIONS[self.op].rounds and self.normal:
            errors |= {"worst_ulp": self.worst, **self.worst_at, "mean_ulp": self.total / self.normal}
            errors |= {"p9999_ulp": self._percentile(0.9999), "worst_subnormal_ulp": self.worst_subnormal}
        told = ("id", "op", "dtype", "values", "problems", "refused", "wrong")
        return {
            **{name: getattr(self, name) for name in told},
            **errors,
            "same_bits": self.same_bits,
            "seconds": round(self.seconds, 3),
            "unavailable": self.unavailable,
        }

    def _percentile(self, share: float) -> float:
        """Return an error in ulp that at most 1 - ``share`` of the elements exceed, rounded up to a bin."""
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
    """Measure implementations of one operation and dtype on the same values; returns a :meth:`Tally.row` for each.

    Each problem runs twice, each time on outputs with another fill pattern. ``progress`` gets each id before its runs.
    """
    operation = operations.OPERATIONS[op]
    if dtype not in dtypes(op):
        return []
    tallies = [Tally(id, op, dtype) for id in ids]
    generator = torch.Generator(device)
    for problem in problems(op, dtype, values, seed):
        progress("")
        try:
            inputs = draw_inputs(problem, op, dtype, generator.manual_seed(problem.seed))
            right = RightResults(operation, operation.arguments(inputs, problem.dim), problem)
            for tally in tallies:
                if not tally.unavailable:
                    progress(tally.id)
                    _run_twice(tally, right)
        except OperationError as error:  # it counts against no implementation
            return [Tally(id, op, dtype, unavailable=str(error)).row() for id in ids]
    return [tally.row() for tally in tallies]


def _run_twice(tally: Tally, right: RightResults) -> None:
    """Run one problem through one implementation, twice, and count the errors."""
    outs = right.operation.allocate(right.args)
    started = time.perf_counter()
    try:
        launch = _bind_launch(right, tally.id, outs)
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
    tally.values += sum(x.numel() for x in right.args.inputs)
    right.count_errors(tally, results[0])
    tally.seconds += time.perf_counter() - started


def _bind_launch(right: RightResults, id: str, outs: Sequence[torch.Tensor]) -> Launch:
    if is_torch_id(id):
        (out,) = outs
        function = getattr(torch, right.operation.in_torch)
        return lambda: void(function(right.args.x, right.problem.dim, out=out))
    with on_device_of(right.args.x):
        return registry.implementation(id).launch_checked(right.args, outs)


class RightResults:
    """The right results of one problem: nearly exact values of a first output that rounds, and bounds for any other."""

    def __init__(self, operation: operations.Operation, args: Arguments, problem: Problem) -> None:
        self.operation, self.args, self.problem = operation, args, problem
        is_float = operation.out_dtypes(args)[0].is_floating_point
        self._rounded = UlpReference(operation, args, problem) if operation.rounds and is_float else None
        alone = self._rounded is not None and len(operation.outputs) == 1
        self._bounds = () if alone else operation.expect(args).outputs[self._rounded is not None :]

    def count_errors(self, tally: Tally, results: Sequence[torch.Tensor]) -> None:
        if self._rounded is not None:
            self._rounded.count_errors(tally, results[0])
        for bounds, result in zip(self._bounds, results[self._rounded is not None :], strict=True):
            tally.wrong += int((~bounds.correct_elements(result)).sum())


class UlpReference:
    """The exact first output of one problem as ``(high + low) * 2^scale``, and its ulp at that scale."""

    def __init__(self, operation: operations.Operation, args: Arguments, problem: Problem) -> None:
        self._operation, self._problem = operation, problem
        # Rows along the last axis of x, as matrices (rows, length).
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
        exponent = exponent.where(self._high.abs() > 0, -math.inf)  # of zero, -inf
        if self._scale is not None:
            exponent = exponent.add_(self._scale)
        self._nan = self._high != self._high
        self._bounded = self._exact_values().abs() > 0.99 * info.max
        """Elements checked against bounds instead of ulp: near infinity, and where the operation has ``special``."""
        self._bounds: Bounds | None = None
        if "special" in operation.hooks or bool(self._bounded.any()):
            self._bounds = operation.expect(args).outputs[0]
            lower, upper = (bound.view_as(self._high) for bound in (self._bounds.lower, self._bounds.upper))
            self._bounded |= lower.isinf() | upper.isinf() | (lower.isnan() != self._nan)
        self._is_normal = (exponent >= least) & ~self._bounded
        unit = exponent.clamp_(min=least).sub_(bits_of)
        self._unit = scale_by_exponent(torch.ones_like(unit), unit if self._scale is None else unit.sub_(self._scale))

    def _exact_values(self) -> torch.Tensor:
        return self._high if self._scale is None else scale_by_exponent(self._high, self._scale)

    def count_errors(self, tally: Tally, result: torch.Tensor) -> None:
        turned = result.t() if self._turns[len(self._args.inputs)] else result
        rows = turned.double().view_as(self._high)
        if self._scale is not None:
            rows = scale_by_exponent(rows, -self._scale)
        off = rows.sub(self._high)
        if self._low is not None:
            off.sub_(self._low)
        ulps = off.abs_().div_(self._unit)
        # A NaN must match a NaN. Any other NaN or infinity is infinitely far off.
        ulps = torch.where(self._nan, torch.where(rows != rows, 0.0, math.inf), ulps.nan_to_num_(math.inf, math.inf))
        allowed = self._allowed_ulps()
        tally.wrong += int(((ulps > allowed) & ~self._bounded).sum())
        if self._bounds is not None:
            tally.wrong += int((~self._bounds.correct_elements(turned).view_as(ulps) & self._bounded).sum())
        normal = ulps[self._is_normal]
        if normal.numel():
            worst = float(normal.max())
            if worst > tally.worst or not tally.worst_at:
                at = ulps.where(self._is_normal, -1.0).argmax()
                problem = self._problem
                tally.worst = worst
                tally.worst_at = {
                    "worst_family": problem.family,
                    "worst_length": problem.length,
                    "worst_dim": problem.dim,
                    "allowed_ulp_there": float(allowed.flatten()[at]),
                }
            tally.total += float(normal.sum())
            tally.normal += normal.numel()
            binned = normal.mul_(_BINS).clamp_(max=_HIGHEST * _BINS - 1).to(torch.int64)
            counts = torch.bincount(binned, minlength=_HIGHEST * _BINS)
            tally.histogram = counts if tally.histogram is None else tally.histogram + counts
        subnormal = ~self._is_normal & ~self._nan & ~self._bounded
        tally.worst_subnormal = max(tally.worst_subnormal, float(ulps.where(subnormal, 0.0).max()))

    def _allowed_ulps(self) -> torch.Tensor:
        """Return the allowed error of each element, in ulp."""
        allowed = self._operation.allowed_error(self._args, self._exact_values())
        if self._scale is not None:
            allowed = scale_by_exponent(allowed, -self._scale)
        return allowed.div_(self._unit).nan_to_num_(0.0, math.inf)
