"""One problem of the conformance suite, and how its inputs are drawn."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo import operations
from kernelzoo.errors import NoRoomError as NoRoomError

if TYPE_CHECKING:
    import torch


Inputs: TypeAlias = "tuple[torch.Tensor, ...]"
Make: TypeAlias = "Callable[..., Inputs]"
"""Makes inputs on a device from a generator. Where the case has scalars, it gets them as ``scalars``, a dict."""

Scalars: TypeAlias = "Mapping[str, Any] | None"


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
    beyond: bool = False
    """Whether its values are none that the operation's author means, so that it is reported apart."""

    @property
    def dtype(self) -> str:
        return self.name.partition("-")[0]

    def inputs(self, device: str) -> Inputs:
        import torch

        return self.make(device, torch.Generator().manual_seed(zlib.crc32(self.name.encode())))

    def __str__(self) -> str:
        return self.name

    def with_scalars(self, *scalars: tuple[str, Any]) -> Case:
        """The case with these scalars, which its inputs are drawn for. ``make`` takes ``scalars``."""
        return replace(self, scalars=scalars, make=partial(self.make, scalars=dict(scalars))) if scalars else self

    def with_drawn_scalars(self) -> Case:
        """The case with the default or another declared value of each scalar, as its name decides."""
        if self.scalars:
            return self
        choose = random.Random(self.name).choice
        declared = operations.OPERATIONS[self.op].scalars.items()
        drawn = ((name, choose((scalar.default, *scalar.also)), scalar.default) for name, scalar in declared)
        return self.with_scalars(*((name, value) for name, value, default in drawn if value != default))


def by(shape: tuple[int, ...]) -> str:
    """``"3x129"``."""
    return "x".join(map(str, shape)) or "scalar"


def sample(
    op: str,
    shape: tuple[int, ...],
    dtype: str,
    dim: int = -1,
    *,
    generator: torch.Generator,
    scalars: Scalars = None,
) -> Inputs:
    return operations.OPERATIONS[op].sample(shape, dtype, dim, generator=generator, scalars=scalars)


def on(device: str, inputs: Iterable[torch.Tensor]) -> Inputs:
    return tuple(x.to(device) for x in inputs)


def beside(op: str, x: torch.Tensor, dim: int, generator: torch.Generator, scalars: Scalars = None) -> Inputs:
    """The given first input, and companion inputs drawn for it."""
    dtype = operations.dtype_name(x.dtype)
    others = sample(op, tuple(x.shape), dtype, dim, generator=generator, scalars=scalars)[1:]
    return operations.OPERATIONS[op].completed((x, *on(str(x.device), others)), dim, generator=generator)


def plain(
    op: str,
    shape: tuple[int, ...],
    dtype: str,
    device: str,
    generator: torch.Generator,
    dim: int = -1,
    scalars: Scalars = None,
) -> Inputs:
    return on(device, operations.OPERATIONS[op].sample(shape, dtype, dim, generator=generator, scalars=scalars))
