"""The twins of :mod:`kernelzoo.kernels.numba.machine` in plain NumPy, for Numba's simulator.

A pointer is a flat array that begins at the tensor's first element; half precision is its bits, as on the GPU.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from kernelzoo.kernels.numba.dtypes import WIDE

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
    def load(pointer: Any, i: int) -> Any:
        return _widen(pointer[i], dtype)[()]

    def store(pointer: Any, i: int, value: Any) -> None:
        pointer[i] = _narrow(value, dtype, pointer.dtype)

    return load, store


def vector_functions(dtype: str, width: int) -> tuple[Any, Any]:
    def load_vector(pointer: Any, i: int, row: Any, k: int) -> None:
        row[k : k + width] = _widen([pointer[i + j] for j in range(width)], dtype)

    def store_vector(pointer: Any, i: int, row: Any, k: int) -> None:
        for j, bits in enumerate(_narrow(row[k : k + width], dtype, pointer.dtype)):
            pointer[i + j] = bits

    return load_vector, store_vector


def maximum(a: Any, b: Any) -> Any:
    return np.fmax(a, b)


def minimum(a: Any, b: Any) -> Any:
    return np.minimum(a, b)


def exponential(x: Any) -> Any:
    return np.exp(x)


def atomic_min(pointer: Any, i: int, value: Any) -> None:
    with _lock:
        pointer[i] = np.minimum(pointer[i], value)


def arrive(counters: Any, i: int, last: int) -> int:
    with _lock:
        before = int(counters[i])
        counters[i] = 0 if before >= last else before + 1
    return before
