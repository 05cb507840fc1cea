"""One problem of the conformance suite, and how its inputs are drawn."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kernelzoo import operations
from kernelzoo.errors import NoRoomError as NoRoomError
from kernelzoo.lazy import torch

Inputs: TypeAlias = "tuple[torch.Tensor, ...]"


@dataclass(frozen=True)
class Sampler:
    """Draws the inputs of a case, with its operation, dtype, device, generator and scalars."""

    operation: operations.Operation
    dtype: str
    """Dtype of the first input."""
    device: str
    generator: torch.Generator
    scalars: Mapping[str, Any]
    """Scalars of the call that are not at their default."""

    def sample(
        self, shape: tuple[int, ...], dim: operations.Dims = -1, sizes: Mapping[str, int] | None = None
    ) -> Inputs:
        """Draw inputs with the operation's method ``sample``, on the generator's device."""
        drawn = self.operation.sample
        return drawn(shape, self.dtype, dim, generator=self.generator, sizes=sizes, scalars=self.scalars)

    def on_device(self) -> Sampler:
        """Return a sampler that draws on the case's device. For billions of elements, the host takes a minute."""
        return replace(self, generator=torch.Generator(self.device).manual_seed(self.generator.initial_seed()))

    def to_device(self, inputs: Iterable[torch.Tensor]) -> Inputs:
        return tuple(x.to(self.device) for x in inputs)

    def add_companion_inputs(self, x: torch.Tensor, dim: int = -1) -> Inputs:
        """Return all inputs on the case's device: ``x`` as the first, and companion inputs that match it."""
        others = replace(self, dtype=operations.dtype_name(x.dtype)).sample(tuple(x.shape), dim)[1:]
        return self.operation.match_other_inputs(self.to_device([x, *others]), dim, generator=self.generator)


Make: TypeAlias = Callable[[Sampler], Inputs]
"""A function that makes the inputs of a case on its device."""


@dataclass(frozen=True)
class Case:
    """One test problem: its inputs from a seeded generator, and the call's arguments. ``inputs`` raises NoRoomError."""

    op: str
    name: str
    """The case's name, which begins with the dtype of the first input."""
    make: Make
    dim: operations.Dims = -1
    keepdim: bool = False
    core: bool = False
    """Whether it is one of the few cases for implementations that are slow to bind."""
    elements: int = 0
    """The number of elements of the first input. A suite may leave out cases with many."""
    place: Callable[[torch.Tensor], torch.Tensor] | None = None
    """A function that allocates an output like a given right result. None: outputs are new contiguous tensors."""
    scalars: tuple[tuple[str, Any], ...] = ()
    """Scalars that are not at their default, by name."""
    beyond: bool = False
    """Whether the operation's author did not expect such values. If so, the case is reported separately."""

    @property
    def dtype(self) -> str:
        return self.name.partition("-")[0]

    def inputs(self, device: str) -> Inputs:
        generator = torch.Generator().manual_seed(zlib.crc32(self.name.encode()))
        return self.make(Sampler(operations.OPERATIONS[self.op], self.dtype, device, generator, dict(self.scalars)))

    def __str__(self) -> str:
        return self.name

    def with_drawn_scalars(self) -> Case:
        """Return the case with a declared value of each scalar, drawn with the case's name as the seed."""
        if self.scalars:
            return self
        choose = random.Random(self.name).choice
        declared = operations.OPERATIONS[self.op].scalars.items()
        drawn = ((name, choose((scalar.default, *scalar.also)), scalar.default) for name, scalar in declared)
        return replace(self, scalars=tuple((name, value) for name, value, default in drawn if value != default))


def shape_str(shape: tuple[int, ...]) -> str:
    """Return a shape as text, such as ``"3x129"``."""
    return "x".join(map(str, shape)) or "scalar"


def copy_rows_far_apart(values: torch.Tensor, stride: int, end_guard: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy rows into new memory, ``stride`` elements apart. Returns the memory, and the copy in it.

    Wherever a wrapped 32-bit offset would point, the memory has wrong values. The rest of the memory is never touched,
    including ``end_guard`` more elements at its end. Raises NoRoomError.
    """
    count, width = values.size(0), values[0].numel()
    below = 2**31  # room for offsets that wrap to negative
    try:
        memory = torch.empty(below + (count - 1) * stride + width + end_guard, dtype=values.dtype, device=values.device)
    except RuntimeError as error:  # the only common base of CPU and GPU errors
        raise NoRoomError(f"no room for {count} rows that lie {stride} elements apart: {error}") from error
    for row in range(count):
        wrapped = (row * stride + below) % 2**32
        # No right result contains this value, since no row of a case is constant.
        memory[wrapped : wrapped + width] = 0 if values.dtype == torch.uint8 else -128
    x = memory.as_strided(values.shape, (stride, *values[0].contiguous().stride()), below)
    return memory, x.copy_(values)


def sampler_of(
    shape: tuple[int, ...], dim: int = -1, sizes: Mapping[str, int] | None = None, *, large: bool = False
) -> Make:
    """Return a function that draws inputs of this shape from a :class:`Sampler`; if ``large``, on its device."""
    return lambda draw: draw.to_device((draw.on_device() if large else draw).sample(shape, dim, sizes))
