"""A call described completely as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelzoo import operations
from kernelzoo.check.fuzz import values
from kernelzoo.errors import KernelZooError
from kernelzoo.operations.arguments import NARROW

FAR = 2**30
"""The smallest stride of x in a case that is ``far``, in elements. Multiples of it exceed 32 bits."""


class CaseError(KernelZooError, ValueError):
    """The text is not a valid case."""


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor: strides, and the first element's offset from a 16-byte boundary, in elements."""

    strides: tuple[int, ...]
    offset: int = 0


Specials = tuple[tuple[str, int], ...]
"""Names of special values, each with the index of its element in memory, modulo the number of elements."""


def json_key(name: str) -> str:
    """Return the JSON key of a companion input: its name, with a prefix if the name is in :data:`WORDS`.

    >>> json_key("weight"), json_key("values")
    ('weight', 'input values')
    """
    return f"input {name}" if name in WORDS else name


WORDS = (
    *("dtype", "shape", "dim", "strides", "offset", "keepdim", "out", "values", "seed", "specials", "negated"),
    *("scalars", "sizes", "fault"),
)
"""Keys of a case in JSON."""


@dataclass(frozen=True)
class CompanionInput:
    """A companion input, which is any input other than the first."""

    name: str
    dtype: str = ""
    """Empty for the dtype that the operation declares."""
    layout: Layout | None = None
    """None for a contiguous tensor at a 16-byte boundary."""
    values: str = ""
    """Empty for the first family of its dtype."""
    specials: Specials = ()
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the companion input as JSON, without default values."""
        layout = {"strides": self.layout.strides, **_drop_empty(offset=self.layout.offset)} if self.layout else {}
        rest = _drop_empty(values=self.values, specials=self.specials, negated=self.negated)
        return {**_drop_empty(dtype=self.dtype), **layout, **rest}


def _drop_empty(**said: Any) -> dict[str, Any]:
    """Return the given values, without those that are empty, zero or False."""
    return {key: value for key, value in said.items() if value}


@dataclass(frozen=True)
class Case:
    """One call. ``fault`` names what is wrong with it, see ``faulty.FAULTS``. The other fields are a valid call."""

    dtype: str
    """Dtype of the first input. ``shape``, ``values``, ``seed``, ``specials`` and ``negated`` are of the same input."""
    shape: tuple[int, ...]
    x: Layout
    dim: Any = -1
    """The axis, or several; None unless the operation is by rows."""
    keepdim: bool = False
    outs: tuple[Layout, ...] = ()
    """Layout of each output that the caller passes. Empty if the call allocates them."""
    values: str = "normal"
    seed: int = 0
    specials: Specials = ()
    negated: bool = False
    """Whether x is a lazily negated view."""
    fault: str = ""
    companions: tuple[CompanionInput, ...] = ()
    """Companion inputs that differ from the default, in the operation's order."""
    scalars: tuple[tuple[str, Any], ...] = ()
    """Scalars that are not at their default, by name."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Sizes of the axes that the first input does not have, by name."""
    drawn: tuple[int, tuple[int, ...]] = field(default=(0, ()), repr=False, compare=False)
    """If the case was drawn: the most elements that it could have, and the choices from which it was drawn."""

    def __str__(self) -> str:
        """Return compact JSON, without default values."""
        outs = [[out.strides, out.offset] for out in self.outs]
        said: dict[str, Any] = {"dtype": self.dtype, "shape": self.shape}
        said |= {} if self.dim is None else {"dim": self.dim}
        said |= {"strides": self.x.strides, **_drop_empty(offset=self.x.offset, keepdim=self.keepdim)}
        said |= _drop_empty(out=outs[0] if len(outs) == 1 else outs)
        said |= {"values": self.values, "seed": self.seed, **_drop_empty(specials=self.specials, negated=self.negated)}
        said |= {json_key(companion.name): companion.to_json() for companion in self.companions}
        said |= _drop_empty(scalars=dict(self.scalars), sizes=dict(self.sizes), fault=self.fault)
        return json.dumps(said, separators=(",", ":"))

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def has_far_rows(self) -> bool:
        """Whether the rows of x are too far apart to fill or compare the memory between them."""
        return any(stride >= FAR for stride in self.x.strides)

    @property
    def axes(self) -> tuple[int, ...]:
        """The reduced axes of a call without a fault."""
        return () if self.dim is None else operations.axes_of(self.dim, len(self.shape))

    @property
    def layout(self) -> tuple[object, ...]:
        """All fields that a compiled kernel may depend on: dtypes, shapes, layouts and arguments."""
        companions = tuple((companion.name, companion.dtype, companion.layout) for companion in self.companions)
        return self.dtype, self.shape, self.x, self.dim, self.keepdim, self.outs, companions, self.scalars, self.sizes

    def shapes(self, op: str) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of all inputs and outputs."""
        return operations.OPERATIONS[op].shapes(self.shape, self.axes, self.keepdim, dict(self.sizes))

    def out_shapes(self, op: str) -> tuple[tuple[int, ...], ...]:
        return self.shapes(op)[len(operations.OPERATIONS[op].inputs) :]

    def each_input(self, op: str) -> Iterator[tuple[CompanionInput, tuple[int, ...]]]:
        """Yield every input and its shape. The first input is described as a CompanionInput, too."""
        first = next(iter(operations.OPERATIONS[op].inputs))
        yield CompanionInput(first, self.dtype, self.x, self.values, self.specials, self.negated), self.shape
        yield from self.each_companion(op)

    def each_companion(self, op: str) -> Iterator[tuple[CompanionInput, tuple[int, ...]]]:
        known = {companion.name: companion for companion in self.companions}
        for name, shape in zip(list(operations.OPERATIONS[op].inputs)[1:], self.shapes(op)[1:], strict=False):
            yield known.get(name, CompanionInput(name)), shape

    def with_companions(self, op: str, *changed: CompanionInput) -> Case:
        """Return the case with ``changed`` companion inputs in place of those with the same names."""
        known = {companion.name: companion for companion in (*self.companions, *changed)}
        named = (known.get(name, CompanionInput(name)) for name in list(operations.OPERATIONS[op].inputs)[1:])
        return replace(
            self, companions=tuple(companion for companion in named if companion != CompanionInput(companion.name))
        )

    def shaping_sizes(self, op: str) -> tuple[int, ...]:
        """Return the sizes that determine all shapes: x's shape, or for named axes, each axis that may vary."""
        operation = operations.OPERATIONS[op]
        if operation.by_rows:
            return self.shape
        known = {**dict(self.sizes), **dict(zip(operation.axes[0], self.shape, strict=True))}
        return tuple(known[axis] for axis in operation.free_axes)

    def with_sizes(self, op: str, sizes: Sequence[int]) -> Case:
        """Return the case with other ``shaping_sizes``, but the same strides."""
        operation = operations.OPERATIONS[op]
        if operation.by_rows:
            return replace(self, shape=tuple(sizes))
        shape, further = split_sizes(operation, dict(zip(operation.free_axes, sizes, strict=True)))
        return replace(self, shape=shape, sizes=tuple(further.items()))


def split_sizes(operation: operations.Operation, sizes: dict[str, int]) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the shape of the first input, and the sizes of the axes that it does not have."""
    return operation.first_input_shape(sizes), {axis: sizes[axis] for axis in operation.extra_axes}


def families_of_input(op: str, name: str, dtype: str) -> tuple[str, ...]:
    """Return the names of an input's value families: only "declared" for a declared range or a narrow dtype."""
    operation = operations.OPERATIONS[op]
    declared = operation.inputs[name]
    if "others" in operation.hooks and name != next(iter(operation.inputs)):
        return (values.DECLARED, *values.families_of_dtype(dtype))
    if declared.low is not None or declared.high is not None or dtype in NARROW:
        return (values.DECLARED,)
    return values.families_of_dtype(dtype) + ((values.DECLARED,) if declared.also else ())


def specials(op: str, name: str, dtype: str) -> tuple[str, ...]:
    """Return the names of the special values that may be put into an input of this dtype."""
    return () if families_of_input(op, name, dtype) == (values.DECLARED,) else values.specials(dtype)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements in memory from the first to the last, inclusive; 0 if the tensor is empty."""
    if not math.prod(shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
