"""Words that every kernel may use: the GPU's own (``machine``), or their twins in Numba's simulator."""

from importlib import import_module
from typing import Any

from numba.cuda import config

machine: Any = import_module(f"kernelzoo.kernels.numba.{'simulated' if config.ENABLE_CUDASIM else 'machine'}")

WARP = 32
ALIGNED = None if config.ENABLE_CUDASIM else 16
"""Alignment of shared memory that is copied in vectors; the simulator's arrays have none to ask for."""
EVERY_LANE = 0xFFFFFFFF

arrive, atomic_min, exponential = machine.arrive, machine.atomic_min, machine.exponential
maximum, minimum, reciprocal, keep = machine.maximum, machine.minimum, machine.reciprocal, machine.keep
