"""Random cases, drawn from a seed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernelzoo import operations
from kernelzoo.calls.backend import get
from kernelzoo.check.fuzz.case import FAR, Case, Layout, dense_strides, families_of_input, span, specials, split_sizes
from kernelzoo.check.fuzz.faulty import possible_faults
from kernelzoo.check.running import max_compiled_elements
from kernelzoo.operations.limits import Limit
from kernelzoo.registry import Implementation

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")

GROUP = 8
"""The number of consecutive cases that share a layout, so that few kernels are compiled. Values and sizes differ."""


def max_elements(implementation: Implementation) -> int:
    """Return the most elements of an input: few if kernels are interpreted, many on a GPU."""
    backend = get(implementation.backend)
    if backend.devices[-1] == "cuda":
        return 2**20
    return (max_compiled_elements(backend.name) // 8 or 2**9) if backend.emulator else 2**16


class Choose(Protocol):
    """A function that chooses a value, by a seeded generator or Hypothesis. ``plain``: the simplest value, by default
    the first. ``often``: the indices from which a generator chooses; Hypothesis chooses from all."""

    def __call__(self, among: Sequence[T], /, plain: T | None = None, often: Sequence[int] = ()) -> T: ...


def _make_recording_chooser(draw_index: Callable[[int, Sequence[int]], int]) -> tuple[Choose, list[int]]:
    """Return a :class:`Choose`, and the list of indices that it chose. ``draw_index`` draws each; 0 is the simplest."""
    choices = list[int]()

    def choose(among: Sequence[T], /, plain: T | None = None, often: Sequence[int] = ()) -> T:
        simplest = 0 if plain is None or plain not in among else among.index(plain)
        choices.append(draw_index(len(among), often))
        return among[(choices[-1] + simplest) % len(among)]

    return choose, choices


def draw(op: str, count: int, seed: int, elements: int, per_layout: int = GROUP) -> list[Case]:
    """Draw ``count`` different cases of at most ``elements`` elements, the same for the same arguments.

    ``per_layout`` consecutive cases share a layout; see GROUP. A seeded generator draws the cases, because Hypothesis
    would repeat half of the cases, and take twenty times longer.
    """
    cases = dict[str, Case]()
    layouts = set[Case]()
    generator = random.Random(f"{op} {seed}")
    while len(cases) < count:
        choose, choices = _make_recording_chooser(lambda count, often: generator.choice(often or range(count)))
        case = _draw_case(choose, op, elements)
        if case not in layouts:
            layouts.add(case)
            of_layout = tuple(choices)
            for number in range(per_layout):
                # One far case is enough, since it takes gigabytes.
                change = "near" if number and case.has_far_rows else "resized" if number >= per_layout // 2 else "same"
                choices[:] = (*of_layout, _LIKE.index(change))
                like = _with_values_or_fault(choose, op, _similar_case(choose, op, case, elements, change))
                cases[str(like)] = replace(like, drawn=(elements, tuple(choices)))
    return list(cases.values())[:count]


def case_strategy(op: str, elements: int) -> SearchStrategy[Case]:
    """Return a Hypothesis strategy for one case of at most ``elements`` elements. Needs Hypothesis."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: DrawFn) -> Case:
        choose = hypothesis_chooser(draw)
        case = _draw_case(choose, op, elements)
        return _with_values_or_fault(choose, op, _similar_case(choose, op, case, elements, choose(_LIKE)))

    return drawn()


def hypothesis_chooser(draw: DrawFn) -> Choose:
    """Return a :class:`Choose` that takes every choice from Hypothesis."""
    from hypothesis import strategies as st

    # With one alternative, Hypothesis records no choice, so that all later choices would shift.
    return _make_recording_chooser(lambda count, often: min(draw(st.sampled_from(range(max(count, 2)))), count - 1))[0]


_MOST_BY_ROWS = 2000
"""The most elements of a first input by rows from :func:`tensors`, so that an interpreter runs it quickly."""


def tensors(op: str, largest: int = 9) -> SearchStrategy[Any]:
    """Return a Hypothesis strategy for inputs on the CPU: any dtype of an operation, any rank up to 5.

    Axes have at most ``largest`` elements, unless their bounds require more. Tensors are permuted, sliced, stepped or
    expanded, and floats include special values. Several inputs come as a tuple, for a call along the last axis.
    Needs Hypothesis.
    """
    import torch
    from hypothesis import strategies as st

    from kernelzoo.check.fuzz import placing

    operation = operations.OPERATIONS[op]

    @st.composite
    def drawn(draw: DrawFn) -> Any:
        choose = hypothesis_chooser(draw)
        dtype, dim = choose(operation.dtypes), -1 if operation.by_rows else None
        further = dict[str, int]()
        if operation.by_rows:
            shape = tuple(choose(range(1, largest + 1)) for _ in range(choose(range(6))))
            while math.prod(shape) > _MOST_BY_ROWS:
                shape = shape[:-1]
        else:
            sizes = operation.clamp_sizes({axis: choose(range(1, largest + 1)) for axis in operation.free_axes})
            shape, further = split_sizes(operation, sizes)
        room = 4 * max(_MOST_BY_ROWS, math.prod(shape))
        case = Case(dtype, shape, draw_layout(choose, shape, room, read_only=True), dim, sizes=tuple(further.items()))
        case = with_values(choose, op, draw_companion_layouts(choose, op, case, room), plain=True)
        inputs = [x for _, x in placing.place_inputs(operation, case, torch.Generator())]
        return inputs[0] if len(inputs) == 1 else tuple(inputs)

    return drawn()


# Lengths that no tile divides.
_ODD = (3, 5, 6, 7, 10, 11, 13, 24, 37, 61, 100, 127, 251, 509, 781, 1000, 1021, 2053, 5003, 9973, 50257, 99991, 524309)


def _draw_case(choose: Choose, op: str, elements: int) -> Case:
    """Draw a case without its values."""
    operation = operations.OPERATIONS[op]
    case = (_draw_case_by_rows if operation.by_rows else _draw_case_by_axes)(choose, op, elements)
    if not case.has_far_rows:
        room = 4 * elements + 64
        if _chance(choose, 40):
            layouts = (draw_layout(choose, shape, room, read_only=False) for shape in case.out_shapes(op))
            case = replace(case, outs=tuple(layouts))
        case = draw_companion_layouts(choose, op, case, room)
    drawn = ((name, choose((scalar.default, *scalar.also))) for name, scalar in operation.scalars.items())
    scalars = tuple((name, value) for name, value in drawn if value != operation.scalars[name].default)
    return replace(case, scalars=scalars)


def draw_companion_layouts(choose: Choose, op: str, case: Case, room: int) -> Case:
    """Return the case with a drawn dtype and layout of each companion input, of at most ``room`` elements in memory."""
    operation = operations.OPERATIONS[op]
    for companion, shape in list(case.each_companion(op)):
        wanted = operation.inputs[companion.name].dtype
        dtype = choose(wanted) if isinstance(wanted, tuple) else ""
        layout: Layout | None = draw_layout(choose, shape, room, read_only=True)
        layout = None if layout == Layout(dense_strides(shape)) else layout
        # An empty dtype stands for the first one.
        dtype = "" if dtype and dtype == operation.dtype_of(companion.name, case.dtype) else dtype
        case = case.with_companions(op, replace(companion, dtype=dtype, layout=layout))
    return case


def _draw_case_by_rows(choose: Choose, op: str, elements: int) -> Case:
    """Draw dtype, shape, axis and layout of x for an operation by rows."""
    operation = operations.OPERATIONS[op]
    dtype = _draw_dtype(choose, operation)
    rank = choose((2,) * 8 + (3,) * 6 + (1,) * 2 + (4, 4, 5, 5, 6, 0))
    dim: Any = choose(range(-max(rank, 1), max(rank, 1)), plain=-1)
    keepdim = operation.reduces and choose((False, True))
    if operation.several_axes and rank and _chance(choose, 30):
        dim = tuple(choose((d, d - rank)) for d in _draw_permutation(choose, rank)[: choose(range(rank + 1))])
    shape = _draw_shape(choose, rank, operations.axes_of(dim, rank) if rank else (), elements)
    if rank == 2 and _chance(choose, 8) and set(operation.dtypes) - {"bool"}:
        dtype = operation.narrowest_dtype
        rows = choose((2, 3, 4, 5) if dtype == "int8" else (2, 3))
        apart = Layout((FAR + choose(range(65)), 1))
        return Case(dtype, (rows, choose(range(1, 65))), apart, -1)
    if rank and _chance(choose, 4):
        empty = choose(range(rank))
        shape = (*shape[:empty], 0, *shape[empty + 1 :])
    return Case(dtype, shape, draw_layout(choose, shape, 4 * elements + 64, read_only=True), dim, keepdim)


def _draw_dtype(choose: Choose, operation: operations.Operation) -> str:
    return choose(operation.dtypes, plain="float32" if "float32" in operation.dtypes else "int32")


def _draw_case_by_axes(choose: Choose, op: str, elements: int) -> Case:
    """Draw dtype and sizes for an operation with named axes. Sometimes a size is 0, if that makes all outputs empty."""
    operation = operations.OPERATIONS[op]
    dtype, axes = _draw_dtype(choose, operation), operation.free_axes
    sizes = _fit_sizes_to_bounds(operation, _draw_shape(choose, len(axes), (), elements), elements)
    outs = operation.axes[len(operation.inputs) :]
    spare = [place for place, axis in enumerate(axes) if all(axis in names for names in outs)]
    spare = [place for place in spare if operation.limits.get(axes[place], Limit()).allows(0)]
    if spare and _chance(choose, 4):
        sizes[choose(spare)] = 0
    shape, further = split_sizes(operation, dict(zip(axes, sizes, strict=True)))
    layout = draw_layout(choose, shape, 4 * elements + 64, read_only=True)
    return Case(dtype, shape, layout, None, sizes=tuple(further.items()))


def _fit_sizes_to_bounds(operation: operations.Operation, sizes: Sequence[int], elements: int) -> list[int]:
    """Fit the sizes of named axes to their bounds. While there are too many elements, axes get their least size."""
    named = operation.clamp_sizes(dict(zip(operation.free_axes, sizes, strict=True)))
    least = operation.clamp_sizes(dict.fromkeys(named, 1))
    for axis in named if operation.limits else ():
        if math.prod(named.values()) > elements:
            named[axis] = least[axis]
    return list(named.values())


def _chance(choose: Choose, percent: int) -> bool:
    return choose(range(100)) >= 100 - percent  # makes Hypothesis shrink towards the plain case


def _draw_permutation(choose: Choose, count: int) -> list[int]:
    """Draw a permutation of the numbers below ``count``."""
    left = list(range(count))
    return [left.pop(choose(range(len(left)))) for _ in range(count)]


def _draw_shape(choose: Choose, rank: int, reduced: Sequence[int], elements: int) -> tuple[int, ...]:
    """Draw a shape of at most ``elements`` elements, small or large. Most shapes have few, long rows."""
    left = int(2 ** (choose(range(3, 21)) / 20 * math.log2(elements)))
    sizes = [1] * rank
    kept = [d for d in range(rank) if d not in reduced]
    for d in (*kept, *reduced) if _chance(choose, 30) else (*reduced, *kept):
        sizes[d] = choose(range(1, left + 1), often=[length - 1 for length in _candidate_lengths(left)])
        left //= sizes[d]
    return tuple(sizes)


def _candidate_lengths(most: int) -> list[int]:
    """Return lengths to choose from: powers of two and their neighbours, small and odd ones, and often ``most``."""
    near = (2**power + more for power in range(most.bit_length()) for more in (-1, 0, 0, 0, 1))
    lengths = [length for length in (*near, *range(2, 9), *_ODD) if 1 <= length <= most]
    return lengths + [most] * (1 + len(lengths) // 3)


def draw_layout(choose: Choose, shape: Sequence[int], room: int, *, read_only: bool) -> Layout:
    """Draw a layout that spans at most ``room`` elements. A ``read_only`` layout may also expand or overlap rows."""
    offset = choose((0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 7, 8, 12, 15))
    kind = choose(("contiguous",) * 3 + ("permuted", "gaps", "permuted gaps") * 2 + ("read alone",) * 2)
    rank = len(shape)
    if kind == "contiguous" or not rank or not math.prod(shape):
        return Layout(dense_strides(shape), offset)
    strides, step = [0] * rank, 1
    for d in reversed(_draw_permutation(choose, rank) if "permuted" in kind else range(rank)):
        strides[d] = step * (choose((1, 1, 2, 3)) if "gaps" in kind else 1)
        # Padding makes it a slice of longer rows.
        step = strides[d] * shape[d] + (choose((0, 0, 1, 3, 8, 16)) if "gaps" in kind else 0)
    if kind == "read alone" and read_only:
        # Equal rows, or overlapping windows.
        d = choose(range(rank))
        strides[d] = choose((0, 0, 1, 2, max(1, strides[d] // 2)))
    return Layout(tuple(strides), offset) if span(shape, strides) <= room else Layout(dense_strides(shape), offset)


_LIKE = ("same", "near", "resized")
"""How a case of a group may differ from the group's first case."""


def _similar_case(choose: Choose, op: str, case: Case, elements: int, change: str) -> Case:
    """Return a case for the same compiled kernels. ``change``: "near" (dense), "resized" (other sizes) or "same"."""
    if change == "near":
        return replace(case, x=Layout(dense_strides(case.shape)))
    if change == "resized" and case.elements and not case.has_far_rows:
        return _enlarge_case(choose, op, case, elements)
    return case


def _with_values_or_fault(choose: Choose, op: str, case: Case) -> Case:
    """Draw values for a case, and occasionally a fault or a lazily negated first input. Returns the changed case."""
    case = with_values(choose, op, case)
    if case.has_far_rows:
        return case
    if math.prod(case.shaping_sizes(op)) and _chance(choose, 5):
        return replace(case, fault=choose(possible_faults(op, case.dtype)), outs=())
    return replace(case, negated=case.dtype in operations.FLOATS and _chance(choose, 3))


def with_values(choose: Choose, op: str, case: Case, *, plain: bool = False) -> Case:
    """Return the case with drawn families of values and special values. ``plain``: only the simplest families."""
    operation, most = operations.OPERATIONS[op], 1 if plain else None
    first = next(iter(operation.inputs))
    case = replace(case, values=choose(families_of_input(op, first, case.dtype)[:most]), seed=choose(range(2**31)))
    names = specials(op, first, case.dtype)
    if choose((False, True)) and names:
        case = replace(case, specials=_draw_specials(choose, names, case.elements))
    for companion, shape in list(case.each_companion(op)):
        dtype = companion.dtype or operation.dtype_of(companion.name, case.dtype)
        known = families_of_input(op, companion.name, dtype)
        drawn, names = choose(known[:most]), specials(op, companion.name, dtype)
        companion = replace(companion, values="" if drawn == known[0] else drawn)
        if choose((False, False, True)) and names:
            companion = replace(companion, specials=_draw_specials(choose, names, math.prod(shape)))
        case = case.with_companions(op, replace(companion, negated=dtype in operations.FLOATS and _chance(choose, 3)))
    return case


def _draw_specials(choose: Choose, names: Sequence[str], elements: int) -> tuple[tuple[str, int], ...]:
    """Draw special values and their indices, often at either end of the memory, where tiles or rows begin or end."""
    last = max(1, elements)
    count = choose((1, 1, 1, 2, 3))
    return tuple((choose(names), choose((0, -1, choose(range(last))))) for _ in range(count))


def _enlarge_case(choose: Choose, op: str, case: Case, elements: int) -> Case:
    """Return the case with sizes larger by multiples of 16, below the next power of two, and with matching strides."""
    sizes = list(case.shaping_sizes(op))
    for d, size in enumerate(sizes):
        room = ((1 << size.bit_length()) - 1 - size) // 16
        allowed = (elements // max(1, math.prod(sizes) // max(1, size)) - size) // 16
        sizes[d] += 16 * choose(range(1 + max(0, min(room, allowed))))
    if not operations.OPERATIONS[op].by_rows:
        sizes = _fit_sizes_to_bounds(operations.OPERATIONS[op], sizes, elements)
    resized = case.with_sizes(op, sizes)
    outs = zip(case.out_shapes(op), case.outs, resized.out_shapes(op), strict=False)
    resized = replace(
        resized,
        x=_refit_layout(case.shape, case.x, resized.shape),
        outs=tuple(_refit_layout(shape, layout, new) for shape, layout, new in outs),
    )
    new_shapes = [shape for _, shape in resized.each_companion(op)]
    refitted = [
        replace(companion, layout=_refit_layout(shape, companion.layout, new) if companion.layout else None)
        for (companion, shape), new in zip(case.each_companion(op), new_shapes, strict=True)
    ]
    return resized.with_companions(op, *refitted)


def _refit_layout(shape: Sequence[int], layout: Layout, new: Sequence[int]) -> Layout:
    """Return the layout for the shape ``new``, with the same axis order in memory and the same gaps."""
    strides = list(layout.strides)
    axes = sorted(range(len(shape)), key=lambda d: (layout.strides[d], shape[d]))
    for inner, outer in itertools.pairwise(axes):
        if layout.strides[inner] and layout.strides[outer] >= layout.strides[inner] * shape[inner]:
            gap = layout.strides[outer] - layout.strides[inner] * shape[inner]
            strides[outer] = strides[inner] * new[inner] + gap
    return Layout(tuple(strides), layout.offset)
