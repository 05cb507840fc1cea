"""The twins of :mod:`kernelzoo.kernels.numba.machine` in plain NumPy, for Numba's simulator.

A pointer is a flat array that begins at the tensor's first element; half precision is its bits, as on the GPU.
"""

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


def guarded_load(dtype: str) -> Any:
    def load_if(pointer: Any, i: int, inside: bool, otherwise: Any) -> Any:
        return _widen(pointer[i], dtype)[()] if inside else otherwise

    return load_if


def is_packed(dtype: str, width: int) -> bool:
    return dtype in ("float16", "bfloat16") and width > 1


def vector_functions(dtype: str, width: int, *, kept: bool = False) -> tuple[Any, Any]:
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


def word_functions(dtype: str) -> tuple[Any, Any, Any, Any, Any]:
    def halves(word: Any) -> Any:
        return _widen(np.array([word], dtype=np.uint32).view(np.uint16), dtype)

    def low(word: Any) -> Any:
        return halves(word)[0]

    def high(word: Any) -> Any:
        return halves(word)[1]

    def pair(low: Any, high: Any) -> Any:
        return _narrow(np.array([low, high], dtype=np.float32), dtype, np.uint16).view(np.uint32)[0]

    def larger(a: Any, b: Any) -> Any:
        return pair(*np.fmax(halves(a), halves(b)))

    def least(a: Any, b: Any) -> Any:
        return pair(*np.minimum(halves(a), halves(b)))

    return low, high, pair, larger, least


def keep(word: Any) -> Any:
    return word


def tile_functions(dtype: str) -> tuple[Any, Any, Any, Any, Any]:
    def copy_in(pointer: Any, i: int, tile: Any, j: int) -> None:
        width, before = 16 // tile.itemsize, max(0, -i)  # before the first element is memory of somebody else's
        tile[j + before : j + width] = pointer[i + before : i + width]

    def wait_copies() -> None:
        pass

    def copy_out(tile: Any, j: int, pointer: Any, i: int) -> None:
        width = 16 // tile.itemsize
        pointer[i : i + width] = tile[j : j + width]

    def widened(tile: Any, j: int) -> Any:
        return _widen(tile[j], dtype)[()]

    def set_narrow(tile: Any, j: int, value: Any) -> None:
        tile[j] = _narrow(value, dtype, tile.dtype)

    return copy_in, wait_copies, copy_out, widened, set_narrow


def element_copy(dtype: str) -> Any:
    def copy_element(pointer: Any, i: int, tile: Any, j: int) -> None:
        tile[j] = pointer[i]

    return copy_element


def end_group() -> None:
    pass


def wait_groups() -> None:
    pass


def tile_vector(dtype: str) -> Any:
    def load_tile(tile: Any, j: int, row: Any, k: int) -> None:
        width = 16 // tile.itemsize
        bits = tile[j : j + width]
        held = bits.copy().view(np.uint32) if is_packed(dtype, width) else _widen(bits, dtype)
        row[k : k + len(held)] = held

    return load_tile


def tile_words(dtype: str, size: int) -> tuple[Any, Any]:
    def place(tile: Any, j: int) -> Any:
        bits = tile[j : j + size // tile.itemsize]
        return bits.view(np.uint32) if tile.itemsize == 2 else bits

    def load_words(tile: Any, j: int, row: Any, k: int) -> None:
        words = place(tile, j)
        row[k : k + len(words)] = words

    def store_words(tile: Any, j: int, row: Any, k: int) -> None:
        words = place(tile, j)
        words[:] = row[k : k + len(words)]

    return load_words, store_words


def maximum(a: Any, b: Any) -> Any:
    return np.fmax(a, b)


def minimum(a: Any, b: Any) -> Any:
    return np.minimum(a, b)


def exponential(x: Any) -> Any:
    return np.exp(x)


def reciprocal(s: Any) -> Any:
    return np.float32(1) / s if s else np.float32(np.nan)


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


def seen(counters: Any, i: int) -> int:
    return int(counters[i])
