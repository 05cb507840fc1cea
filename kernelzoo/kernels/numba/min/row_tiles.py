"""Tilings for the minimum, and the reduction of a thread's elements of a row.

A NaN must win: kernels use ``minimum`` and ``atomic_min`` of :mod:`kernelzoo.kernels.numba.machine`. Half precision is
compared in float32, and narrow integers in int32. Both are exact.
"""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP, minimum
from kernelzoo.kernels.numba.dtypes import is_packed, itemsize
from kernelzoo.kernels.numba.tiling import RowView, Tiling, one_row_tiling, warp_row_layout
from kernelzoo.layout import cdiv, next_power_of_two
from kernelzoo.tables import form_knobs, knob


@form_knobs
class Knobs:
    # An H200 has 132 SMs. With up to 132 rows, an SM has one row at most, which should have many threads.
    few_rows: int = knob(132, among=(16, 32, 64, 132, 264), unit="rows", why="up to which a long row has 512 threads")
    wide_vectors: int = knob(
        320, among=(160, 320, 640), unit="vectors", why="for each in flight, up to which a row has 512 threads as well"
    )
    stacked: int = knob(2, among=(1, 2, 4), unit="vectors", why="in flight to a thread, of all its short rows")


def vectors_in_flight(dtype: str, vec: int) -> int:
    """Return how many vectors a thread loads at once: eight, or fewer of narrow integers, which are widened on load."""
    return 8 if vec == 1 or itemsize(dtype) >= 4 or dtype in ("float16", "bfloat16") else 32 // vec


def rows_tiling(v: RowView, knobs: Knobs) -> Tiling:
    """Return a tiling of up to a warp per row and several rows per thread, in blocks of 128 threads. A longer row has a
    block of up to 256 threads. It has 512 if rows are few, or to save a second batch of loads."""
    if v.is_strided:
        if v.n <= 32:
            return Tiling(1, 256, v.n, 1, across=True, stack=max(1, 16 // next_power_of_two(v.n)))
        rows = min(32, next_power_of_two(v.evenly_spaced_rows))
        lanes = min(256 // rows, max(next_power_of_two(cdiv(v.n, 8)), 64 // rows))
        return Tiling(lanes, rows, min(8, next_power_of_two(cdiv(v.n, lanes))), 1, across=True)
    (vec, lanes, tiles), most = warp_row_layout(v), vectors_in_flight(v.dtype, v.vec)
    edges = v.edges and vec > 1
    if tiles <= most and (not edges or 2 * vec <= WARP):
        return Tiling(lanes, 128 // lanes, tiles, vec, edges, stack=max(1, min(knobs.stacked, most) // tiles))
    wide = v.total <= knobs.few_rows or v.vectors_per_row <= knobs.wide_vectors * most
    return one_row_tiling(v, 512 if wide else 256, most)


@cache
def thread_min_function(dtype: str, tiling: Tiling) -> Any:
    """Return ``thread_min(row, k, value)``: the minimum of a value and of a thread's registers from ``row[k]`` on.

    Packed halves are compared two at a time. Only the last word is widened."""
    PACKED, WORDS = is_packed(dtype, tiling.vec), tiling.registers(dtype)
    low, high, _, _, packed_min = machine.packed_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def thread_min(row, k, value):
        if PACKED:
            word = row[k]
            for j in range(1, WORDS):
                word = packed_min(word, row[k + j])
            return minimum(value, minimum(low(word), high(word)))
        for j in range(WORDS):
            value = minimum(value, row[k + j])
        return value

    return thread_min
