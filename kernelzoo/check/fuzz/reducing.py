"""Making a case that fails simpler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kernelzoo import operations
from kernelzoo.check.fuzz import values
from kernelzoo.check.fuzz.case import Case, Layout, contiguous


def reduce(op: str, case: Case, fails: Callable[[Case], bool], tries: int) -> Case:
    """A simpler case that still fails: none of its simplifications does, or so many were tried."""
    tried = {str(case)}
    found = True
    while found:
        found = False
        for candidate in simpler(op, case):
            if len(tried) > tries:
                return case
            if str(candidate) not in tried:
                tried.add(str(candidate))
                if fails(candidate):
                    case, found = candidate, True
                    break
    return case


def simpler(op: str, case: Case) -> Iterator[Case]:
    """Simplifications of a case, the largest steps first."""
    plain = Layout(contiguous(case.shape))
    if case.out is not None:
        yield replace(case, out=None)
    if case.specials:
        yield replace(case, specials=())
        for i in range(len(case.specials) if len(case.specials) > 1 else 0):
            yield replace(case, specials=case.specials[:i] + case.specials[i + 1 :])
    if case.negated:
        yield replace(case, negated=False)
    if case.x != plain and not case.far:
        yield replace(case, x=plain)
        if case.x.offset:
            yield replace(case, x=replace(case.x, offset=0))
        if case.x.strides != plain.strides:
            yield replace(case, x=replace(case.x, strides=plain.strides))
    if case.out is not None:
        plain_out = Layout(contiguous(case.out_shape(op)))
        if case.out != plain_out:
            yield replace(case, out=plain_out)
            yield replace(case, out=replace(case.out, offset=0))
    if isinstance(case.dim, tuple) and not case.fault:
        for d in case.dim:
            yield replace(case, dim=d, out=None)
    for d in range(len(case.shape)):
        yield from _without_axis(op, case, d)
    for d, size in enumerate(case.shape):
        for smaller in sorted({1, 2, size // 16, size // 2, size - 16, size - 1} & set(range(1, size))):
            yield _sized(op, case, d, smaller)
    families = values.families(case.dtype)
    for family in families[: families.index(case.values)]:
        yield replace(case, values=family)
    if case.seed:
        yield replace(case, seed=0)
    for i, (name, at) in enumerate(case.specials if case.elements else ()):
        for place in sorted({0, at % case.elements // 2, at % case.elements} - {at}):
            if place < at or at < 0:
                yield replace(case, specials=(*case.specials[:i], (name, place), *case.specials[i + 1 :]))
    if case.keepdim:
        yield replace(case, keepdim=False, out=None)
    if isinstance(case.dim, int) and case.dim >= 0 and case.dim == len(case.shape) - 1 and not case.fault:
        yield replace(case, dim=-1)
    plainest = "float32" if case.dtype in operations.FLOATS else "int32"
    same = {*values.families(plainest), *values.specials(plainest)}
    if case.dtype != plainest and not case.far and {case.values, *(name for name, _ in case.specials)} <= same:
        yield replace(case, dtype=plainest)


def _without_axis(op: str, case: Case, axis: int) -> Iterator[Case]:
    """The case with one axis fewer; the only reduced one stays."""
    if case.fault or not isinstance(case.dim, int | tuple) or case.far:
        return
    rank, axes = len(case.shape), case.axes
    if axes == (axis,) or not rank:
        return
    left = tuple(d - (d > axis) - (rank - 1) for d in axes if d != axis)
    out = None
    same_rank = case.keepdim or not operations.OPERATIONS[op].reduces
    if case.out is not None and (axis not in axes or same_rank):
        place = axis if same_rank else axis - sum(d < axis for d in axes)
        out = replace(case.out, strides=_dropped(case.out.strides, place))
    elif case.out is not None:
        out = case.out
    yield replace(
        case,
        shape=_dropped(case.shape, axis),
        x=replace(case.x, strides=_dropped(case.x.strides, axis)),
        dim=left if isinstance(case.dim, tuple) else left[0],
        out=out,
    )


def _dropped(values: tuple[int, ...], place: int) -> tuple[int, ...]:
    return values[:place] + values[place + 1 :]


def _sized(op: str, case: Case, axis: int, size: int) -> Case:
    """The case with another size of one axis; what was contiguous is so again."""
    shape = (*case.shape[:axis], size, *case.shape[axis + 1 :])
    x, out = case.x, case.out
    if x.strides == contiguous(case.shape):
        x = replace(x, strides=contiguous(shape))
    smaller = replace(case, shape=shape, x=x)
    if out is not None and not case.fault and out.strides == contiguous(case.out_shape(op)):
        out = replace(out, strides=contiguous(smaller.out_shape(op)))
    return replace(smaller, out=out)
