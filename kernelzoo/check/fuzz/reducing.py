"""Reduces a failing case to a simpler one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from kernelzoo import operations
from kernelzoo.check.fuzz.case import Case, Companion, Layout, contiguous, families, place_of, specials


def reduce(op: str, case: Case, fails: Callable[[Case], bool], tries: int) -> Case:
    """A simpler case that still fails, after at most ``tries`` tries or when no simplification fails."""
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
    for companion in case.companions:
        yield case.with_companion(op, Companion(companion.name))
        for plainer in _plainer(companion):
            yield case.with_companion(op, plainer)
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
        for smaller in _smaller(op, d, size):
            yield _sized(op, case, d, smaller)
    yield from _plainer_values(op, case)
    if case.keepdim:
        yield replace(case, keepdim=False, outs=())
    if isinstance(case.dim, int) and case.dim >= 0 and case.dim == len(case.shape) - 1 and not case.fault:
        yield replace(case, dim=-1)
    yield from _plainest(op, case)


def _smaller(op: str, place: int, size: int) -> list[int]:
    """Smaller sizes of an axis, which its bounds allow."""
    operation = operations.OPERATIONS[op]
    sizes = {1, 2, size // 16, size // 2, size - 16, size - 1}
    if not operation.by_rows and (limit := operation.limits.get(operation.free_axes[place])) is not None:
        sizes = {limit.nearest(smaller) for smaller in sizes}
    return sorted(sizes & set(range(1, size)))


def _fewer(said: tuple[tuple[str, int], ...]) -> Iterator[tuple[tuple[str, int], ...]]:
    """No special value, or one fewer."""
    if said:
        yield ()
        for i in range(len(said) if len(said) > 1 else 0):
            yield said[:i] + said[i + 1 :]


def _nearer(said: tuple[tuple[str, int], ...], elements: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """One special value closer to the first element."""
    for i, (name, at) in enumerate(said if elements else ()):
        for place in sorted({0, at % elements // 2, at % elements} - {at}):
            if place < at or at < 0:
                yield (*said[:i], (name, place), *said[i + 1 :])


def _plainer(companion: Companion) -> Iterator[Companion]:
    """A companion input with fewer settings."""
    if companion.layout is not None:
        yield replace(companion, layout=None)
        if companion.layout.offset:
            yield replace(companion, layout=replace(companion.layout, offset=0))
    for fewer in _fewer(companion.specials):
        yield replace(companion, specials=fewer)
    if companion.negated:
        yield replace(companion, negated=False)
    if companion.dtype:
        yield Companion(companion.name, layout=companion.layout)


def _plainer_values(op: str, case: Case) -> Iterator[Case]:
    first, *_ = operations.OPERATIONS[op].inputs
    named = families(op, first, case.dtype)
    for family in named[: named.index(case.values)] if case.values in named else ():
        yield replace(case, values=family)
    if case.seed:
        yield replace(case, seed=0)
    for nearer in _nearer(case.specials, case.elements):
        yield replace(case, specials=nearer)
    for companion, shape in case.each_companion(op):
        dtype = companion.dtype or operations.OPERATIONS[op].dtype_of(companion.name, case.dtype)
        named = families(op, companion.name, dtype)
        for family in ("", *named[1 : named.index(companion.values)]) if companion.values else ():
            yield case.with_companion(op, replace(companion, values=family))
        for nearer in _nearer(companion.specials, math.prod(shape)):
            yield case.with_companion(op, replace(companion, specials=nearer))


def _plainest(op: str, case: Case) -> Iterator[Case]:
    """The same values in the most familiar dtype."""
    operation = operations.OPERATIONS[op]
    plainest = "float32" if case.dtype in operations.FLOATS else "int32"
    if case.dtype == plainest or plainest not in operation.dtypes or case.far:
        return
    first, *_ = operation.inputs
    for given in (Companion(first, values=case.values, specials=case.specials), *case.companions):
        own = given.dtype or operation.dtype_of(given.name, plainest)
        known = {"", *families(op, given.name, own), *specials(op, given.name, own)}
        if not {given.values, *(name for name, _ in given.specials)} <= known:
            return
    yield replace(case, dtype=plainest)


def _without_axis(op: str, case: Case, axis: int) -> Iterator[Case]:
    """The case with one axis fewer. The only reduced axis stays."""
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
    yield fewer.with_companion(
        op,
        *(
            replace(companion, layout=dropped(companion.layout, operation.inputs[companion.name].names, False))
            for companion in case.companions
            if companion.layout is not None
        ),
    )


def _dropped(values: tuple[int, ...], place: int) -> tuple[int, ...]:
    return values[:place] + values[place + 1 :]


def _sized(op: str, case: Case, place: int, size: int) -> Case:
    """The case with another size of one axis in every tensor. Contiguous tensors stay so."""
    sizes = case.free_sizes(op)
    smaller = case.with_sizes(op, (*sizes[:place], size, *sizes[place + 1 :]))
    old, new = case.shapes(op), smaller.shapes(op)
    inputs = len(operations.OPERATIONS[op].inputs)

    def fitted(layout: Layout, number: int) -> Layout:
        was_contiguous = layout.strides == contiguous(old[number])
        return replace(layout, strides=contiguous(new[number])) if was_contiguous else layout

    companions = [
        replace(companion, layout=fitted(companion.layout, number))
        for number, (companion, _) in enumerate(case.each_companion(op), 1)
        if companion.layout is not None
    ]
    outs = tuple(fitted(out, inputs + i) for i, out in enumerate(case.outs))
    return replace(smaller, x=fitted(case.x, 0), outs=outs).with_companion(op, *companions)
