"""Making a case that fails simpler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from kernelzoo import operations
from kernelzoo.check.fuzz.case import Case, Layout, Other, contiguous, families, place_of, specials


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
    if case.outs:
        yield replace(case, outs=())
    for fewer in _fewer(case.specials):
        yield replace(case, specials=fewer)
    if case.negated:
        yield replace(case, negated=False)
    if case.x != plain and not case.far:
        yield replace(case, x=plain)
        if case.x.offset:
            yield replace(case, x=replace(case.x, offset=0))
        if case.x.strides != plain.strides:
            yield replace(case, x=replace(case.x, strides=plain.strides))
    for other in case.others:
        yield case.with_other(op, Other(other.name))
        for plainer in _plainer(other):
            yield case.with_other(op, plainer)
    for name, _ in case.scalars:
        yield replace(case, scalars=tuple(scalar for scalar in case.scalars if scalar[0] != name))
    for i, (out, shape) in enumerate(zip(case.outs, case.out_shapes(op), strict=False)):
        plain_out = Layout(contiguous(shape))
        if out != plain_out:
            for simple in (plain_out, replace(out, offset=0)):
                yield replace(case, outs=(*case.outs[:i], simple, *case.outs[i + 1 :]))
    if isinstance(case.dim, tuple) and not case.fault:
        for d in case.dim:
            yield replace(case, dim=d, outs=())
    if operations.OPERATIONS[op].by_rows:
        for d in range(len(case.shape)):
            yield from _without_axis(op, case, d)
    for d, size in enumerate(case.free_sizes(op)):
        for smaller in sorted({1, 2, size // 16, size // 2, size - 16, size - 1} & set(range(1, size))):
            yield _sized(op, case, d, smaller)
    yield from _plainer_values(op, case)
    if case.keepdim:
        yield replace(case, keepdim=False, outs=())
    if isinstance(case.dim, int) and case.dim >= 0 and case.dim == len(case.shape) - 1 and not case.fault:
        yield replace(case, dim=-1)
    yield from _plainest(op, case)


def _fewer(said: tuple[tuple[str, int], ...]) -> Iterator[tuple[tuple[str, int], ...]]:
    """No special value, or one fewer."""
    if said:
        yield ()
        for i in range(len(said) if len(said) > 1 else 0):
            yield said[:i] + said[i + 1 :]


def _nearer(said: tuple[tuple[str, int], ...], elements: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """One special value nearer to the first element."""
    for i, (name, at) in enumerate(said if elements else ()):
        for place in sorted({0, at % elements // 2, at % elements} - {at}):
            if place < at or at < 0:
                yield (*said[:i], (name, place), *said[i + 1 :])


def _plainer(other: Other) -> Iterator[Other]:
    """An input with less about it."""
    if other.layout is not None:
        yield replace(other, layout=None)
        if other.layout.offset:
            yield replace(other, layout=replace(other.layout, offset=0))
    for fewer in _fewer(other.specials):
        yield replace(other, specials=fewer)
    if other.negated:
        yield replace(other, negated=False)
    if other.dtype:
        yield Other(other.name, layout=other.layout)


def _plainer_values(op: str, case: Case) -> Iterator[Case]:
    first, *_ = operations.OPERATIONS[op].inputs
    named = families(op, first, case.dtype)
    for family in named[: named.index(case.values)] if case.values in named else ():
        yield replace(case, values=family)
    if case.seed:
        yield replace(case, seed=0)
    for nearer in _nearer(case.specials, case.elements):
        yield replace(case, specials=nearer)
    for other, shape in case.each_other(op):
        dtype = other.dtype or operations.OPERATIONS[op].dtype_of(other.name, case.dtype)
        named = families(op, other.name, dtype)
        for family in ("", *named[1 : named.index(other.values)]) if other.values else ():
            yield case.with_other(op, replace(other, values=family))
        for nearer in _nearer(other.specials, math.prod(shape)):
            yield case.with_other(op, replace(other, specials=nearer))


def _plainest(op: str, case: Case) -> Iterator[Case]:
    """The same values in the dtype that readers know best."""
    operation = operations.OPERATIONS[op]
    plainest = "float32" if case.dtype in operations.FLOATS else "int32"
    if case.dtype == plainest or plainest not in operation.dtypes or case.far:
        return
    first, *_ = operation.inputs
    for given in (Other(first, values=case.values, specials=case.specials), *case.others):
        own = given.dtype or operation.dtype_of(given.name, plainest)
        known = {"", *families(op, given.name, own), *specials(op, given.name, own)}
        if not {given.values, *(name for name, _ in given.specials)} <= known:
            return
    yield replace(case, dtype=plainest)


def _without_axis(op: str, case: Case, axis: int) -> Iterator[Case]:
    """The case with one axis fewer; the only reduced one stays."""
    if case.fault or not isinstance(case.dim, int | tuple) or case.far:
        return
    rank, axes = len(case.shape), case.axes
    if axes == (axis,) or not rank:
        return
    left = tuple(d - (d > axis) - (rank - 1) for d in axes if d != axis)
    operation = operations.OPERATIONS[op]
    inputs = len(operation.inputs)

    def dropped(layout: Layout, names: tuple[str, ...], keepdim: bool) -> Layout:
        place = place_of(names, axis, axes, keepdim)
        return layout if place is None else replace(layout, strides=_dropped(layout.strides, place))

    outs = zip(case.outs, operation.axes[inputs:], strict=False)
    fewer = replace(
        case,
        shape=_dropped(case.shape, axis),
        x=replace(case.x, strides=_dropped(case.x.strides, axis)),
        dim=left if isinstance(case.dim, tuple) else left[0],
        outs=tuple(dropped(layout, names, case.keepdim) for layout, names in outs),
    )
    yield fewer.with_other(
        op,
        *(
            replace(other, layout=dropped(other.layout, operation.inputs[other.name].names, False))
            for other in case.others
            if other.layout is not None
        ),
    )


def _dropped(values: tuple[int, ...], place: int) -> tuple[int, ...]:
    return values[:place] + values[place + 1 :]


def _sized(op: str, case: Case, place: int, size: int) -> Case:
    """The case with another size of one axis, in every tensor that has it; what was contiguous is so again."""
    sizes = case.free_sizes(op)
    smaller = case.with_sizes(op, (*sizes[:place], size, *sizes[place + 1 :]))
    old, new = case.shapes(op), smaller.shapes(op)
    inputs = len(operations.OPERATIONS[op].inputs)

    def fitted(layout: Layout, number: int) -> Layout:
        was_contiguous = layout.strides == contiguous(old[number])
        return replace(layout, strides=contiguous(new[number])) if was_contiguous else layout

    others = [
        replace(other, layout=fitted(other.layout, number))
        for number, (other, _) in enumerate(case.each_other(op), 1)
        if other.layout is not None
    ]
    outs = tuple(fitted(out, inputs + i) for i, out in enumerate(case.outs))
    return replace(smaller, x=fitted(case.x, 0), outs=outs).with_other(op, *others)
