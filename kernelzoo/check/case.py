"""One problem of the conformance suite, and how its inputs are drawn."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo import operations
from kernelzoo.errors import NoRoomError as NoRoomError

if TYPE_CHECKING:
    import torch


Inputs: TypeAlias = "tuple[torch.Tensor, ...]"
Make: TypeAlias = "Callable[[str, torch.Generator], Inputs]"


@dataclass(frozen=True)
class Case:
    """One problem: how to make its inputs on a device from a seeded generator, and the call's arguments.

    ``inputs`` raises NoRoomError where the machine has no room for them.
    """

    op: str
    name: str
    """It begins with the dtype of the first input."""
    make: Make
    dim: operations.Dims = -1
    keepdim: bool = False
    core: bool = False
    """Whether it is one of the few cases for implementations that are slow to bind."""
    elements: int = 0
    """Elements of the first input, for suites that leave out large cases."""
    place: Callable[[torch.Tensor], torch.Tensor] | None = None
    """Makes each output's memory, given the right result. None makes new contiguous tensors."""
    scalars: tuple[tuple[str, Any], ...] = ()
    """Scalars that are not at their default, by name."""

    @property
    def dtype(self) -> str:
        return self.name.partition("-")[0]

    def inputs(self, device: str) -> Inputs:
        import torch

        return self.make(device, torch.Generator().manual_seed(zlib.crc32(self.name.encode())))

    def __str__(self) -> str:
        return self.name


def by(shape: tuple[int, ...]) -> str:
    """``"3x129"``."""
    return "x".join(map(str, shape)) or "scalar"


def sample(op: str, shape: tuple[int, ...], dtype: str, dim: int = -1, *, generator: torch.Generator) -> Inputs:
    return operations.OPERATIONS[op].sample(shape, dtype, dim, generator=generator)


def on(device: str, inputs: Iterable[torch.Tensor]) -> Inputs:
    return tuple(x.to(device) for x in inputs)


def beside(op: str, x: torch.Tensor, dim: int, generator: torch.Generator) -> Inputs:
    """The given first input, and companion inputs drawn for it."""
    others = sample(op, tuple(x.shape), operations.dtype_name(x.dtype), dim, generator=generator)[1:]
    return operations.OPERATIONS[op].completed((x, *on(str(x.device), others)), dim, generator=generator)


def plain(
    op: str,
    shape: tuple[int, ...],
    dtype: str,
    device: str,
    generator: torch.Generator,
    dim: int = -1,
    scalars: Mapping[str, Any] | None = None,
) -> Inputs:
    return on(device, operations.OPERATIONS[op].sample(shape, dtype, dim, generator=generator, scalars=scalars))
