"""Functions that every kernel may use: the GPU's own (``machine``), or their twins in Numba's simulator."""

from importlib import import_module
from typing import Any

from numba import cuda
from numba.cuda import config, types

machine: Any = import_module(f"kernelzoo.kernels.numba.{'simulated' if config.ENABLE_CUDASIM else 'machine'}")

WARP = 32
EVERY_LANE = 0xFFFFFFFF
ALIGNED = None if config.ENABLE_CUDASIM else 16
"""Alignment of shared memory that is copied in vectors; the simulator's arrays have none to ask for."""

exponential, logarithm, maximum = machine.exponential, machine.logarithm, machine.maximum
minimum, opaque = machine.minimum, machine.opaque


def cluster_functions() -> tuple[Any, Any, Any, Any]:
    """``cluster_arrive``, ``cluster_wait``, ``send``, ``wait_for``, which the simulator does not have."""
    from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for

    return cluster_arrive, cluster_wait, send, wait_for


@cuda.jit(device=True, inline="always")
def add(a, b):
    return a + b


@cuda.jit(device=True, inline="always")
def quotient(a, b):
    """Of numbers of 32 bits, since a GPU takes several times as long over those of 64."""
    return types.int64(types.uint32(a) // types.uint32(b))
