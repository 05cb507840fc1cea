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
def divide_uint32(a, b):
    """Return a // b, computed in 32 bits. A 64-bit division takes a GPU several times as long."""
    return types.int64(types.uint32(a) // types.uint32(b))
