"""A call written down: everything about it, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelzoo import operations
from kernelzoo.check.fuzz import values
from kernelzoo.errors import KernelZooError
from kernelzoo.operations.declared import ROW

FAR = 2**30
"""Elements from one row to the next of a case that is ``far``, more or less: multiples of it don't fit 32 bits."""


class CaseError(KernelZooError, ValueError):
    """The text describes no case."""


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie: strides, and the offset of the first from a 16-byte boundary, in elements."""

    strides: tuple[int, ...]
    offset: int = 0


Specials = tuple[tuple[str, int], ...]
"""Special values and where they go: the number of the element in memory, modulo how many there are."""


def word_of(name: str) -> str:
    """What an input beside the first is called in JSON: its name, if a case has no other use of it.

    >>> word_of("weight"), word_of("values")
    ('weight', 'input values')
    """
    return f"input {name}" if name in WORDS else name


WORDS = (
    *("dtype", "shape", "dim", "strides", "offset", "keepdim", "out", "values", "seed", "specials", "negated"),
    *("scalars", "sizes", "fault"),
)
"""Of a case in JSON."""


@dataclass(frozen=True)
class Other:
    """An input beside the first."""

    name: str
    dtype: str = ""
    """"": the one that the operation says, which may be that of the first input."""
    layout: Layout | None = None
    """None: contiguous, at a 16-byte boundary."""
    values: str = ""
    """"": the first family of its dtype."""
    specials: Specials = ()
    negated: bool = False

    def said(self) -> dict[str, Any]:
        """As JSON, without what is at its default."""
        said: dict[str, Any] = {"dtype": self.dtype} if self.dtype else {}
        said |= {"strides": self.layout.strides} if self.layout else {}
        said |= {"offset": self.layout.offset} if self.layout and self.layout.offset else {}
        said |= {"values": self.values} if self.values else {}
        said |= {"specials": self.specials} if self.specials else {}
        return said | ({"negated": True} if self.negated else {})


@dataclass(frozen=True)
class Case:
    """One call. ``fault`` names what is wrong with it, see FAULTS; the rest is then as it would be without."""

    dtype: str
    """Of the first input, as are shape, values, seed, specials and negated."""
    shape: tuple[int, ...]
    x: Layout
    """Of the first input."""
    dim: Any = -1
    """None for an operation that is not by rows."""
    keepdim: bool = False
    outs: tuple[Layout, ...] = ()
    """Of each output; none: the call makes its own."""
    values: str = "normal"
    seed: int = 0
    specials: Specials = ()
    negated: bool = False
    """X is a lazily negated view."""
    fault: str = ""
    others: tuple[Other, ...] = ()
    """Inputs beside the first, of which something is not at its default, in the order of the operation."""
    scalars: tuple[tuple[str, Any], ...] = ()
    """Scalars that are not at their default, by name."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Of the axes that the first input has not, by name."""

    def __str__(self) -> str:
        """Compact JSON, without what is at its default."""
        said: dict[str, Any] = {"dtype": self.dtype, "shape": self.shape}
        said |= {"dim": self.dim} if self.dim is not None else {}
        said |= {"strides": self.x.strides}
        said |= {"offset": self.x.offset} if self.x.offset else {}
        said |= {"keepdim": True} if self.keepdim else {}
        outs = [[out.strides, out.offset] for out in self.outs]
        said |= {"out": outs if len(outs) > 1 else outs[0]} if outs else {}
        said |= {"values": self.values, "seed": self.seed}
        said |= {"specials": self.specials} if self.specials else {}
        said |= {"negated": True} if self.negated else {}
        said |= {word_of(other.name): other.said() for other in self.others}
        said |= {"scalars": dict(self.scalars)} if self.scalars else {}
        said |= {"sizes": dict(self.sizes)} if self.sizes else {}
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
        return () if self.dim is None else operations.axes_of(self.dim, len(self.shape))

    @property
    def layout(self) -> tuple[object, ...]:
        """All that a kernel may be compiled for."""
        others = tuple((other.name, other.dtype, other.layout) for other in self.others)
        return self.dtype, self.shape, self.x, self.dim, self.keepdim, self.outs, others, self.scalars, self.sizes

    def shapes(self, op: str) -> tuple[tuple[int, ...], ...]:
        """Of all inputs and outputs."""
        return operations.OPERATIONS[op].shapes(self.shape, self.axes, self.keepdim, dict(self.sizes))

    def out_shapes(self, op: str) -> tuple[tuple[int, ...], ...]:
        return self.shapes(op)[len(operations.OPERATIONS[op].inputs) :]

    def each_other(self, op: str) -> Iterator[tuple[Other, tuple[int, ...]]]:
        """Every input beside the first, and its shape."""
        known = {other.name: other for other in self.others}
        for name, shape in zip(list(operations.OPERATIONS[op].inputs)[1:], self.shapes(op)[1:], strict=False):
            yield known.get(name, Other(name)), shape

    def with_other(self, op: str, *changed: Other) -> Case:
        """The case with these in the place of those of their names."""
        known = {other.name: other for other in (*self.others, *changed)}
        named = (known.get(name, Other(name)) for name in list(operations.OPERATIONS[op].inputs)[1:])
        return replace(self, others=tuple(other for other in named if other != Other(other.name)))

    def free_sizes(self, op: str) -> tuple[int, ...]:
        """The sizes by which all shapes are known: of the axes of x or, where axes have names, of each that is no
        number."""
        operation = operations.OPERATIONS[op]
        if operation.by_rows:
            return self.shape
        known = {**dict(self.sizes), **dict(zip(operation.axes[0], self.shape, strict=True))}
        return tuple(known[axis] for axis in free_axes(operation))

    def with_sizes(self, op: str, sizes: Sequence[int]) -> Case:
        """The case with these in the place of ``free_sizes``, and the strides that it has."""
        operation = operations.OPERATIONS[op]
        if operation.by_rows:
            return replace(self, shape=tuple(sizes))
        shape, further = named_sizes(operation, dict(zip(free_axes(operation), sizes, strict=True)))
        return replace(self, shape=shape, sizes=tuple(further.items()))


def free_axes(operation: operations.Operation) -> tuple[str, ...]:
    """Of an operation whose axes have names: those that have no fixed size."""
    return tuple(axis for axis in dict.fromkeys((*operation.axes[0], *operation.sizes)) if not axis.isdigit())


def named_sizes(operation: operations.Operation, sizes: dict[str, int]) -> tuple[tuple[int, ...], dict[str, int]]:
    """The shape of the first input, and the sizes of the axes that it has not."""
    shape = tuple(int(axis) if axis.isdigit() else sizes[axis] for axis in operation.axes[0])
    return shape, {axis: sizes[axis] for axis in operation.sizes}


def families(op: str, name: str, dtype: str) -> tuple[str, ...]:
    """The families of values that an input of that dtype may have: integers with a range have those of it alone."""
    operation = operations.OPERATIONS[op]
    declared = operation.inputs[name]
    if "others" in operation.hooks and name != next(iter(operation.inputs)):
        return (values.DECLARED, *values.families(dtype))
    if declared.low is not None or declared.high is not None:
        return (values.DECLARED,)
    return values.families(dtype) + ((values.DECLARED,) if declared.also else ())


def specials(op: str, name: str, dtype: str) -> tuple[str, ...]:
    """Names of the special values that an input of that dtype may have."""
    return () if families(op, name, dtype) == (values.DECLARED,) else values.specials(dtype)


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


# What may be wrong with a call, and the error that it must raise. The module faulty makes such calls.

FAULTS: dict[str, str] = {
    "an axis out of range": "AxisError",
    "no axis": "AxisError",
    "half an axis": "AxisError",
    "an axis twice": "AxisError",
    "another dtype": "InputTypeError",
    "a list": "InputTypeError",
    "a sparse tensor": "InputTypeError",
    "a tensor elsewhere": "OutputError",
    "a gradient and an out": "GradientError",
    "no such variant": "UnknownNameError",
    "out of another shape": "OutputError",
    "out of another dtype": "OutputError",
    "out within x": "OutputError",
    "out upon itself": "OutputError",
    "out that is none": "OutputError",
    "another shape of an input": "ShapeError",
    "an input elsewhere": "DeviceError",
    "another dtype of an input": "InputTypeError",
    "outs upon each other": "OutputError",
}

_OF_AXES = ("an axis out of range", "no axis", "half an axis", "an axis twice")
_OF_INPUTS = ("another shape of an input", "an input elsewhere", "another dtype of an input")


def faults(op: str, dtype: str) -> tuple[str, ...]:
    """What may be wrong with a call of an operation on a tensor of that dtype."""
    operation = operations.OPERATIONS[op]
    not_for = {*(_OF_AXES if not operation.by_rows else ()), *(_OF_INPUTS if len(operation.inputs) < 2 else ())}
    not_for |= {"outs upon each other"} if len(operation.outputs) < 2 else set()
    not_for |= {"a gradient and an out"} if dtype not in operations.FLOATS else set()
    return tuple(name for name in FAULTS if name not in not_for)


def place_of(names: tuple[str, ...], axis: int, axes: Sequence[int], keepdim: bool) -> int | None:
    """Where an axis of x stands in a tensor by rows with those axes; None if it is not there."""
    if names == ROW or (keepdim and names == ("outer", "inner")):
        return axis
    if names == ("outer", "inner") and axis not in axes:
        return axis - sum(d < axis for d in axes)
    return None
