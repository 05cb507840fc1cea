"""Fuzzing: cases over the whole contract, made up from a seed, written down as JSON, made simpler when they fail.

A :class:`Case` says everything about one call: dtype, shape, strides, storage offset, axis, where ``out`` lies and how,
which values, and what is wrong with the call, if something is. What it says is all there is: the same case is the same
call on any machine, and the same values on the same kind of device. :mod:`kernelzoo.fuzz_runner` runs it.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernelzoo import fuzz_values, operations, registry
from kernelzoo.backend import get
from kernelzoo.errors import KernelZooError

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")

GROUP = 8
"""Cases that share a layout: all that a language compiles a kernel for stays the same, or nearly, so that a run is not
spent on compiling. Sizes differ among them by multiples of 16 within one power of two; values, and specials, differ."""

FAR = 2**30
"""Elements from one row to the next of a case that is ``far``, more or less: multiples of it don't fit 32 bits."""


class CaseError(KernelZooError, ValueError):
    """A case as it was written down is none."""


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie: strides, and the offset of the first from a 16-byte boundary, in elements."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Case:
    """One call. ``fault`` names what is wrong with it, see FAULTS; the rest is then as it would be without."""

    dtype: str
    shape: tuple[int, ...]
    x: Layout
    dim: Any = -1
    keepdim: bool = False
    out: Layout | None = None
    """None: the call makes its own."""
    values: str = "normal"
    seed: int = 0
    specials: tuple[tuple[str, int], ...] = ()
    """Special values and where they go: the number of the element in memory, modulo how many there are."""
    negated: bool = False
    """X is a lazily negated view."""
    fault: str = ""

    def __str__(self) -> str:
        """Compact JSON, without what is at its default."""
        said: dict[str, Any] = {"dtype": self.dtype, "shape": self.shape, "dim": self.dim, "strides": self.x.strides}
        said |= {"offset": self.x.offset} if self.x.offset else {}
        said |= {"keepdim": True} if self.keepdim else {}
        said |= {"out": [self.out.strides, self.out.offset]} if self.out else {}
        said |= {"values": self.values, "seed": self.seed}
        said |= {"specials": self.specials} if self.specials else {}
        said |= {"negated": True} if self.negated else {}
        said |= {"fault": self.fault} if self.fault else {}
        return json.dumps(said, separators=(",", ":"))

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def far(self) -> bool:
        """Whether x spans more memory than is ever filled or compared."""
        return any(stride >= FAR for stride in self.x.strides)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are reduced, where nothing is wrong with them."""
        return operations.axes_of(self.dim, len(self.shape))

    def out_shape(self, op: str) -> tuple[int, ...]:
        return operations.OPERATIONS[op].out_shape(self.shape, self.axes, self.keepdim)


def parse(text: str, op: str) -> Case:
    """The case that ``str`` of one wrote down. Raises CaseError."""
    try:
        said = json.loads(text)
        known = {"dtype", "shape", "dim", "strides", "offset", "keepdim", "out", "values", "seed", "specials"}
        if strange := set(said) - known - {"negated", "fault"}:
            raise CaseError(f"a case has no {', '.join(sorted(strange))}; it has {', '.join(sorted(known))}")
        shape, dim = tuple(map(int, said["shape"])), said.get("dim", -1)
        case = Case(
            said["dtype"],
            shape,
            Layout(tuple(map(int, said.get("strides", contiguous(shape)))), int(said.get("offset", 0))),
            tuple(dim) if isinstance(dim, list) else dim,
            bool(said.get("keepdim", False)),
            Layout(tuple(map(int, said["out"][0])), int(said["out"][1])) if said.get("out") else None,
            said.get("values", "normal"),
            int(said.get("seed", 0)),
            tuple((str(name), int(place)) for name, place in said.get("specials", ())),
            bool(said.get("negated", False)),
            said.get("fault", ""),
        )
        for kind, name, names in (
            (f"{op} dtype", case.dtype, operations.OPERATIONS[op].dtypes),
            ("fault", case.fault, ("", *faults(case.dtype))),
        ):
            if name not in names:
                raise CaseError(f"a case has no {kind} {name!r}; known: {', '.join(filter(None, names))}")
        for kind, name, names in (
            ("values", case.values, fuzz_values.families(case.dtype)),
            *(("special value", name, fuzz_values.specials(case.dtype)) for name, _ in case.specials),
        ):
            if name not in names:
                raise CaseError(f"a case of {case.dtype} has no {kind} {name!r}; known: {', '.join(names)}")
        if len(case.x.strides) != len(shape) or min((*shape, *case.x.strides, case.x.offset), default=0) < 0:
            raise CaseError(f"a case has as many strides as axes, and nothing negative; got {text}")
        if case.out is not None and len(case.out.strides) != len(case.out_shape(op)):
            raise CaseError(f"out of {text} must have {len(case.out_shape(op))} strides")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, KernelZooError):
            raise
        raise CaseError(f"no case {text!r}: {type(error).__name__}: {error}") from error
    return case


def largest(implementation: registry.Implementation) -> int:
    """Elements of the largest input to make up: few where kernels are interpreted, most where launches are cheap."""
    backend = get(implementation.backend)
    if backend.devices[-1] == "cuda":
        return 2**20
    return 2**9 if backend.emulator else 2**16


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first to the last, both counted; 0 if there are none."""
    if not math.prod(shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


# What may be wrong with a call: the error that must come of it. fuzz_runner makes the call so.

FAULTS: dict[str, str] = {
    "an axis out of range": "AxisError",
    "no axis": "AxisError",
    "half an axis": "AxisError",
    "an axis twice": "AxisError",
    "another dtype": "InputTypeError",
    "a list": "InputTypeError",
    "a sparse tensor": "InputTypeError",
    "a tensor elsewhere": "DeviceError",
    "a gradient": "GradientError",
    "no such variant": "UnknownNameError",
    "out of another shape": "OutputError",
    "out of another dtype": "OutputError",
    "out within x": "OutputError",
    "out upon itself": "OutputError",
    "out that is none": "OutputError",
}


def faults(dtype: str) -> tuple[str, ...]:
    """What may be wrong with a call on a tensor of that dtype."""
    return tuple(name for name in FAULTS if name != "a gradient" or dtype in operations.FLOATS)


# Making cases up


class Choose(Protocol):
    """One of several, each as likely as any other: of a seeded generator, or of Hypothesis."""

    def __call__(self, among: Sequence[T], /) -> T: ...


def draw(op: str, count: int, seed: int, elements: int, alike: int = GROUP) -> list[Case]:
    """So many cases of an operation, all different, of at most so many elements; the same for the same arguments.

    ``alike`` of them in a row share a layout; see GROUP. By a generator and not by Hypothesis, which varies what it has
    made: of 1000 layouts of its own 400 had been there before, and most others differed from the one before in one
    respect. It took 1.7 ms for each, this takes 0.1 ms.
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
        return _filled(choose, case, choose(fuzz_values.families(case.dtype)))

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
        yield _filled(choose, like, choose(fuzz_values.families(case.dtype)))


def _filled(choose: Choose, case: Case, values: str) -> Case:
    """The case with values, and now and then with something wrong in the call."""
    case = replace(case, values=values, seed=choose(range(2**31)))
    if choose((False, True)):
        # Often at either end, where a block or a row begins or ends.
        names, last = fuzz_values.specials(case.dtype), max(1, case.elements)
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


# Making a case that fails simpler


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
    families = fuzz_values.families(case.dtype)
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
    same = {*fuzz_values.families(plainest), *fuzz_values.specials(plainest)}
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
