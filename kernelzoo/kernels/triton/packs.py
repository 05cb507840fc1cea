"""What a thread does alone with its elements of a block, before lanes meet: sums, maxima, (max, sum) states of rows.

A block is seen as [ROWS, turns, LANES, VECTOR]: a thread has a vector of each turn, see ``pack_tiles.pack_tile``.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.triton.device_functions import add_exactly, whole


@triton.jit
def in_packs(tile, LANES: tl.constexpr, VECTOR: tl.constexpr):
    return tl.reshape(tile, [tile.shape[0], tile.shape[1] // (LANES * VECTOR), LANES, VECTOR])


@triton.jit
def row_sum(
    x, x_start, x_n, begin, end, in_rows, WIDE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Sums of rows from begin to end: a thread's elements of a block, blocks and what they rounded off, then lanes."""
    total = tl.zeros([ROWS, LANES], WIDE)
    lost = tl.zeros([ROWS, LANES], WIDE)
    for start in range(begin, end, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < end), other=0).to(WIDE)
        total, lost = add_exactly(total, lost, tl.sum(tl.sum(in_packs(tile, LANES, VECTOR), 3), 1))
    return tl.sum(whole(total, lost), 1, keep_dims=True)


@triton.jit
def row_state(
    x, x_start, x_n, begin, end, in_rows, LOWEST: tl.constexpr, HIGHEST: tl.constexpr, WIDE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """(max, sum) of rows from begin to end, in one pass. Of a row with a NaN the sum is NaN, of -inf alone 0.

    Of a row with +inf the sum is infinite if HIGHEST is the highest finite number, and NaN if it is infinite.
    """
    # A maximum is no lower than the lowest finite number, so that no difference of two is -inf - -inf.
    top = tl.full([ROWS, LANES], LOWEST, WIDE)
    total = tl.zeros([ROWS, LANES], WIDE)
    lost = tl.zeros([ROWS, LANES], WIDE)
    for start in range(begin, end, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < end), other=float("-inf")).to(WIDE)
        packs = in_packs(tile, LANES, VECTOR)
        new = tl.minimum(tl.maximum(top, tl.max(tl.max(packs, 3), 1)), HIGHEST)
        terms = exponential(packs - new[:, None, :, None])
        scale = exponential(top - new)
        total, lost = add_exactly(total * scale, lost * scale, tl.sum(tl.sum(terms, 3), 1))
        top = new
    return merged(top, whole(total, lost))


@triton.jit
def merged(top, total):
    """(max, sum) of rows from those of their parts, which are side by side."""
    row_top = tl.max(top, 1, keep_dims=True)
    return row_top, tl.sum(total * exponential(top - row_top), 1, keep_dims=True)
