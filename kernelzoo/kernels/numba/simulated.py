"""The twins of :mod:`kernelzoo.kernels.numba.machine` in plain NumPy, for Numba's simulator.

A pointer is a flat array that begins at the tensor's first element; half precision is its bits, as on the GPU.
"""

import threading
from typing import Any

import numpy as np

from kernelzoo.kernels.numba.dtypes import WIDE, is_packed

_lock = threading.Lock()


def _widen(bits: Any, dtype: str) -> Any:
    if dtype == "bfloat16":
        return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)
    if dtype == "float16":
        return np.asarray(bits).view(np.float16).astype(np.float32)
    return np.asarray(bits).astype(WIDE[dtype].name)


def _narrow(value: Any, dtype: str, storage: Any) -> Any:
    value = np.asarray(value, dtype=WIDE[dtype].name)
    if dtype == "bfloat16":
        bits = value.view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(value), 0x7FFF, rounded).astype(np.uint16)
    if dtype == "float16":
        return value.astype(np.float16).view(np.uint16)
    return value.astype(storage)


def element_functions(dtype: str) -> tuple[Any, Any]:
    def store(pointer: Any, i: int, value: Any) -> None:
        pointer[i] = _narrow(value, dtype, pointer.dtype)

    return lambda pointer, i: _widen(pointer[i], dtype)[()], store


def guarded_load(dtype: str) -> Any:
    return lambda pointer, i, inside, otherwise: _widen(pointer[i], dtype)[()] if inside else otherwise


def vector_functions(dtype: str, width: int, *, keep_in_l2: bool = False) -> tuple[Any, Any]:
    packed = is_packed(dtype, width)
    registers = width // 2 if packed else width

    def load_vector(pointer: Any, i: int, row: Any, k: int, inside: bool) -> None:
        if inside:
            bits = np.array([pointer[i + j] for j in range(width)])
            row[k : k + registers] = bits.view(np.uint32) if packed else _widen(bits, dtype)

    def store_vector(pointer: Any, i: int, row: Any, k: int, inside: bool) -> None:
        if inside:
            held = row[k : k + registers]
            for j, bits in enumerate(held.view(np.uint16) if packed else _narrow(held, dtype, pointer.dtype)):
                pointer[i + j] = bits

    return load_vector, store_vector


def shared_functions(dtype: str) -> tuple[Any, Any, Any, Any]:
    def copy_vector(pointer: Any, i: int, shared: Any, j: int) -> None:
        width, before = 16 // shared.itemsize, max(0, -i)  # before the first element is memory of somebody else's
        shared[j + before : j + width] = pointer[i + before : i + width]

    def load_shared(shared: Any, j: int, row: Any, k: int) -> None:
        width = 16 // shared.itemsize
        bits = shared[j : j + width]
        held = bits.copy().view(np.uint32) if is_packed(dtype, width) else _widen(bits, dtype)
        row[k : k + len(held)] = held

    return copy_vector, lambda: None, load_shared, element_functions(dtype)[1]


def packed_functions(dtype: str) -> tuple[Any, Any, Any, Any, Any]:
    def halves(word: Any) -> Any:
        return _widen(np.array([word], dtype=np.uint32).view(np.uint16), dtype)

    def pack(low: Any, high: Any) -> Any:
        return _narrow(np.array([low, high], dtype=np.float32), dtype, np.uint16).view(np.uint32)[0]

    return (
        lambda word: halves(word)[0],
        lambda word: halves(word)[1],
        pack,
        lambda a, b: pack(*np.fmax(halves(a), halves(b))),
        lambda a, b: pack(*np.minimum(halves(a), halves(b))),
    )


maximum, minimum, exponential, logarithm, opaque = np.fmax, np.minimum, np.exp, np.log, lambda value: value


def atomic_min(pointer: Any, i: int, value: Any) -> None:
    with _lock:
        pointer[i] = np.minimum(pointer[i], value)


def arrive(counters: Any, i: int, last: int) -> int:
    with _lock:
        before = int(counters[i])
        counters[i] = 0 if before >= last else before + 1
    return before


def count_up(counters: Any, i: int) -> int:
    with _lock:
        counters[i] += 1
        return int(counters[i]) - 1


def load_counter(counters: Any, i: int) -> int:
    return int(counters[i])
