"""What each operation means, once: what it takes, its canonical form, its reference, its tolerance, its bytes.

An operation is a file, with all that is about it alone: a subclass of :class:`Operation`, which everything that checks,
times or shows an implementation asks, and the method of a backend that calls it. Nothing here knows how a kernel
computes. It is listed below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelzoo.operations.expected import Expected
from kernelzoo.operations.min import MIN, MinCall
from kernelzoo.operations.operation import (
    FLOATS,
    INTEGERS,
    Dims,
    Operation,
    Sample,
    axes_of,
    check_tensor,
    dtype_name,
    full_dtype,
)
from kernelzoo.operations.softmax import SOFTMAX, SoftmaxCall

if TYPE_CHECKING:
    import torch

OPERATIONS: dict[str, Operation] = {op.name: op for op in (SOFTMAX, MIN)}


class Calls(SoftmaxCall, MinCall):
    """A method for each operation."""


def sample(op: str, shape: tuple[int, ...], dtype: str, dim: Dims = -1, *, generator: torch.Generator) -> torch.Tensor:
    """Random input of an operation by its name; see :meth:`Operation.sample`."""
    return OPERATIONS[op].sample(shape, dtype, dim, generator=generator)


__all__ = [
    "FLOATS",
    "INTEGERS",
    "MIN",
    "OPERATIONS",
    "SOFTMAX",
    "Calls",
    "Dims",
    "Expected",
    "Operation",
    "Sample",
    "axes_of",
    "check_tensor",
    "dtype_name",
    "full_dtype",
    "sample",
]
