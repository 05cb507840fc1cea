"""Device functions that all kernels share."""

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine

WARP = 32
EVERY_LANE = 0xFFFFFFFF
ALIGNED = 16
"""Alignment, in bytes, of shared memory that is copied in vectors."""

exponential, maximum, minimum, opaque = machine.exponential, machine.maximum, machine.minimum, machine.opaque


@cuda.jit(device=True, inline="always")
def add(a, b):
    return a + b


@cuda.jit(device=True, inline="always")
def quotient(a, b):
    """Return a // b of 32-bit numbers, since a GPU takes several times as long over 64-bit ones."""
    return types.int64(types.uint32(a) // types.uint32(b))
