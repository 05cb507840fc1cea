"""Random cases from a seed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernelzoo import operations
from kernelzoo.backend import get
from kernelzoo.check.fuzz import values
from kernelzoo.check.fuzz.case import FAR, Case, Layout, contiguous, faults, span
from kernelzoo.registry import Implementation

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")

GROUP = 8
"""Cases that share a layout: all that a language compiles a kernel for stays the same, or nearly, so that a run is not
spent on compiling. Sizes differ among them by multiples of 16 within one power of two; values, and specials, differ."""


def largest(implementation: Implementation) -> int:
    """Elements of the largest input to draw: few where kernels are interpreted, most where launches are cheap."""
    backend = get(implementation.backend)
    if backend.devices[-1] == "cuda":
        return 2**20
    return 2**9 if backend.emulator else 2**16


class Choose(Protocol):
    """One of several, each as likely as any other: of a seeded generator, or of Hypothesis."""

    def __call__(self, among: Sequence[T], /) -> T: ...


def draw(op: str, count: int, seed: int, elements: int, alike: int = GROUP) -> list[Case]:
    """So many cases of an operation, all different, of at most so many elements; the same for the same arguments.

    ``alike`` of them in a row share a layout; see GROUP. A plain generator draws them, not Hypothesis, which varies
    the example before: most of its layouts repeat, or differ in one respect, and each takes longer to draw.
    """
    cases = dict[str, Case]()
    layouts = set[Case]()
    choose = random.Random(f"{op} {seed}").choice
    while len(cases) < count:
        case = _drawn(choose, op, elements)
        if case not in layouts:
            layouts.add(case)
            cases |= {str(like): like for like in _group(choose, op, case, elements, alike)}
    return list(cases.values())[:count]


def strategy(op: str, elements: int) -> SearchStrategy[Case]:
    """The same as a Hypothesis strategy, for property tests: one case of at most so many elements. Needs Hypothesis."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: DrawFn) -> Case:
        def choose(among: Sequence[T]) -> T:
            return draw(st.sampled_from(among))

        case = _drawn(choose, op, elements)
        return _filled(choose, case, choose(values.families(case.dtype)))

    return drawn()


# Lengths that no tile divides; the others are powers of two, or one more or less, or small, or all that is left.
_ODD = (3, 5, 6, 7, 10, 11, 13, 24, 37, 61, 100, 127, 251, 509, 781, 1000, 1021, 2053, 5003, 9973, 50257, 99991, 524309)


def _drawn(choose: Choose, op: str, elements: int) -> Case:
    """A case without its values."""
    operation = operations.OPERATIONS[op]
    dtype = choose(operation.dtypes)
    rank = choose((2,) * 8 + (3,) * 6 + (1,) * 2 + (4, 4, 5, 5, 6, 0))
    dim: Any = choose(range(-max(rank, 1), max(rank, 1)))
    keepdim = operation.reduces and choose((False, True))
    if operation.several_axes and rank and _chance(choose, 30):
        dim = tuple(choose((d, d - rank)) for d in _order(choose, rank)[: choose(range(rank + 1))])
    shape = _shape(choose, rank, operations.axes_of(dim, rank) if rank else (), elements)
    if rank == 2 and _chance(choose, 8):
        dtype = operation.narrowest
        rows = choose((2, 3, 4, 5) if dtype == "int8" else (2, 3))
        apart = Layout((FAR + choose(range(65)), 1))
        return Case(dtype, (rows, choose(range(1, 65))), apart, -1)
    if rank and _chance(choose, 4):
        empty = choose(range(rank))
        shape = (*shape[:empty], 0, *shape[empty + 1 :])
    room = 4 * elements + 64
    case = Case(dtype, shape, _layout(choose, shape, room, read_alone=True), dim, keepdim)
    if _chance(choose, 40):
        case = replace(case, out=_layout(choose, case.out_shape(op), room, read_alone=False))
    return case


def _chance(choose: Choose, percent: int) -> bool:
    return choose(range(100)) >= 100 - percent  # so that Hypothesis finds the plain case the simplest


def _order(choose: Choose, count: int) -> list[int]:
    """A permutation."""
    left = list(range(count))
    return [left.pop(choose(range(len(left)))) for _ in range(count)]


def _shape(choose: Choose, rank: int, reduced: Sequence[int], elements: int) -> tuple[int, ...]:
    """Sizes that share a number of elements, of any order of magnitude; mostly long rows and few of them."""
    left = int(2 ** (choose(range(3, 21)) / 20 * math.log2(elements)))
    sizes = [1] * rank
    kept = [d for d in range(rank) if d not in reduced]
    for d in (*kept, *reduced) if _chance(choose, 30) else (*reduced, *kept):
        size = 2 ** choose(range(max(1, left).bit_length()))
        kind = choose(("power", "one more", "one less", "odd", "few", "all", "all"))
        if kind == "odd":
            size = choose(_ODD)
        elif kind == "few":
            size = choose(range(2, 9))
        elif kind == "all":
            size = left
        sizes[d] = max(1, min(size + {"one more": 1, "one less": -1}.get(kind, 0), left))
        left //= sizes[d]
    return tuple(sizes)


def _layout(choose: Choose, shape: Sequence[int], room: int, *, read_alone: bool) -> Layout:
    """Strides and an offset: contiguous, permuted, stepped, padded and, where it is only read, expanded or overlapping.

    Within so many elements of memory.
    """
    offset = choose((0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 7, 8, 12, 15))
    kind = choose(("contiguous",) * 3 + ("permuted", "gaps", "permuted gaps") * 2 + ("read alone",) * 2)
    rank = len(shape)
    if kind == "contiguous" or not rank or not math.prod(shape):
        return Layout(contiguous(shape), offset)
    strides, step = [0] * rank, 1
    for d in reversed(_order(choose, rank) if "permuted" in kind else range(rank)):
        strides[d] = step * (choose((1, 1, 2, 3)) if "gaps" in kind else 1)
        # What is longer than that is a slice of longer rows.
        step = strides[d] * shape[d] + (choose((0, 0, 1, 3, 8, 16)) if "gaps" in kind else 0)
    if kind == "read alone" and read_alone:
        # Rows that are all the same, or windows that overlap.
        d = choose(range(rank))
        strides[d] = choose((0, 0, 1, 2, max(1, strides[d] // 2)))
    return Layout(tuple(strides), offset) if span(shape, strides) <= room else Layout(contiguous(shape), offset)


def _group(choose: Choose, op: str, case: Case, elements: int, alike: int) -> Iterator[Case]:
    """A case and others like it, which the same kernels take: see GROUP."""
    for number in range(alike):
        like = case
        if number and case.far:  # one such is enough: it takes gigabytes
            like = replace(case, x=Layout(contiguous(case.shape)))
        if number >= alike // 2 and like.elements and not like.far:
            like = _resized(choose, op, like, elements)
        yield _filled(choose, like, choose(values.families(case.dtype)))


def _filled(choose: Choose, case: Case, family: str) -> Case:
    """The case with values, and now and then with something wrong in the call."""
    case = replace(case, values=family, seed=choose(range(2**31)))
    if choose((False, True)):
        # Often at either end, where a block or a row begins or ends.
        names, last = values.specials(case.dtype), max(1, case.elements)
        count = choose((1, 1, 1, 2, 3))
        specials = ((choose(names), choose((0, -1, choose(range(last))))) for _ in range(count))
        case = replace(case, specials=tuple(specials))
    if case.far:
        return case
    if case.elements and _chance(choose, 5):
        return replace(case, fault=choose(faults(case.dtype)), out=None)
    return replace(case, negated=case.dtype in operations.FLOATS and _chance(choose, 3))


def _resized(choose: Choose, op: str, case: Case, elements: int) -> Case:
    """The case with sizes that differ by a multiple of 16 within one power of two, its strides made to fit."""
    shape = list(case.shape)
    for d, size in enumerate(shape):
        if size > 1:
            room = ((1 << size.bit_length()) - 1 - size) // 16
            allowed = (elements // max(1, math.prod(shape) // size) - size) // 16
            shape[d] += 16 * choose(range(1 + max(0, min(room, allowed))))
    resized = replace(case, shape=tuple(shape))
    out_shape = resized.out_shape(op)
    return replace(
        resized,
        x=_refit(case.shape, case.x, shape),
        out=_refit(case.out_shape(op), case.out, out_shape) if case.out else None,
    )


def _refit(shape: Sequence[int], layout: Layout, new: Sequence[int]) -> Layout:
    """The layout for a tensor of other sizes: axes in the same order in memory, as far apart beyond each other."""
    strides = list(layout.strides)
    axes = sorted(range(len(shape)), key=lambda d: (layout.strides[d], shape[d]))
    for inner, outer in itertools.pairwise(axes):
        if layout.strides[inner] and layout.strides[outer] >= layout.strides[inner] * shape[inner]:
            gap = layout.strides[outer] - layout.strides[inner] * shape[inner]
            strides[outer] = strides[inner] * new[inner] + gap
    return Layout(tuple(strides), layout.offset)
