"""What Numba's language has no word for, as intrinsics: 16-byte vectors, half precision, NaN-keeping minima, atomics.

Each function here is a few instructions of the GPU, written as LLVM IR or inline PTX, and has a twin of the same name
in :mod:`kernelzoo.kernels.numba.simulated` that says the same in NumPy; kernels take whichever runs from
:mod:`kernelzoo.kernels.numba.row`. Pointers are raw addresses (``CPointer``), offsets count elements in 64 bits.

Half precision is moved as 16-bit integers and converted by single instructions. Numba has a bfloat16 of its own, but
each of its operations is a call into a C++ shim, compiled with NVRTC and linked in at every compilation.
"""

from kernelzoo.kernels.numba.machine.atomics import arrive, atomic_min, count_up, seen
from kernelzoo.kernels.numba.machine.halves import is_packed, keep, word_functions
from kernelzoo.kernels.numba.machine.numbers import exponential, maximum, minimum, reciprocal
from kernelzoo.kernels.numba.machine.tiles import (
    element_copy,
    end_group,
    tile_functions,
    tile_vector,
    tile_words,
    wait_groups,
)
from kernelzoo.kernels.numba.machine.vectors import element_functions, guarded_load, vector_functions

__all__ = [
    "arrive",
    "atomic_min",
    "count_up",
    "element_copy",
    "element_functions",
    "end_group",
    "exponential",
    "guarded_load",
    "is_packed",
    "keep",
    "maximum",
    "minimum",
    "reciprocal",
    "seen",
    "tile_functions",
    "tile_vector",
    "tile_words",
    "vector_functions",
    "wait_groups",
    "word_functions",
]
