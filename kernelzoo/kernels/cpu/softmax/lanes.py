"""Functions for rows side by side: lane i of every array belongs to row i, so loops over lanes vectorise freely."""

import numpy as np
from numba import njit

from kernelzoo.kernels.cpu.device_functions import exponential, round_like, two_sum, widen

LANES_BLOCK = 16
"""Elements of each row that are exponentiated and summed at a time. Each lane adds its terms in order."""


@njit
def add_lane_sums(total, carry, partial, width):
    for i in range(width):
        total[i], carry[i] = two_sum(total[i], carry[i], partial[i])


@njit
def load_lanes(x, start, begin, count, x_n, x_lane, tile, pitch, top, width):
    """Widen elements begin to begin + count of each row into tile[count, pitch], and raise ``top`` to their maxima.

    ``top`` ignores NaN, because comparisons with NaN are false.
    """
    if x_n < x_lane:
        for i in range(width):
            highest = top[i]
            for j in range(count):
                value = widen(x[start + (begin + j) * x_n + i * x_lane])
                tile[j * pitch + i] = value
                highest = value if value > highest else highest
            top[i] = highest
        return
    for j in range(count):
        at, to = start + (begin + j) * x_n, j * pitch
        if x_lane == np.uint64(1):
            for i in range(width):
                value = widen(x[at + i])
                tile[to + i] = value
                top[i] = value if value > top[i] else top[i]
        else:
            for i in range(width):
                value = widen(x[at + i * x_lane])
                tile[to + i] = value
                top[i] = value if value > top[i] else top[i]


@njit
def exponentiate_lanes(tile, begin, end, pitch, top, partial, width):
    """Replace elements begin to end of each row of the tile by exp(element - top). Write their sums to ``partial``."""
    for i in range(width):
        partial[i] = 0
    for j in range(begin, end):
        at = j * pitch
        for i in range(width):
            value = exponential(tile[at + i] - top[i])
            tile[at + i] = value
            partial[i] += value


@njit
def store_lanes(tile, begin, end, pitch, scale, out, to, out_n, out_lane, width):
    """Write elements begin to end of each row of the tile, times ``scale``. ``to``: the tile's offset in out."""
    if out_n < out_lane:
        for i in range(width):
            at = to + i * out_lane
            if out_n == np.uint64(1):
                for j in range(begin, end):
                    out[at + j] = round_like(tile[j * pitch + i] * scale[i], out[to])
            else:
                for j in range(begin, end):
                    out[at + j * out_n] = round_like(tile[j * pitch + i] * scale[i], out[to])
        return
    for j in range(begin, end):
        at = to + j * out_n
        if out_lane == np.uint64(1):
            for i in range(width):
                out[at + i] = round_like(tile[j * pitch + i] * scale[i], out[to])
        else:
            for i in range(width):
                out[at + i * out_lane] = round_like(tile[j * pitch + i] * scale[i], out[to])
