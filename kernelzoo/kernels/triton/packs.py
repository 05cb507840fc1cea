"""Sums and (max, sum) states of rows. The sum of a state is that of exp(x - max). Lanes are merged at the end.

A block is reshaped to [ROWS, turns, LANES, VECTOR]. A thread has one vector per turn, see ``pack_tiles.pack_tile``.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.triton.device_functions import add_exactly, add_up


@triton.jit
def reshape_to_packs(tile, LANES: tl.constexpr, VECTOR: tl.constexpr):
    return tl.reshape(tile, [tile.shape[0], tile.shape[1] // (LANES * VECTOR), LANES, VECTOR])


@triton.jit
def row_sum(
    x, x_start, x_n, begin, end, in_rows, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each row's sum over columns ``begin`` to ``end``. Sums over blocks are compensated for rounding."""
    total = tl.zeros([ROWS, LANES], ACC_DTYPE)
    lost = tl.zeros([ROWS, LANES], ACC_DTYPE)
    for start in range(begin, end, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < end), other=0).to(ACC_DTYPE)
        total, lost = add_exactly(total, lost, tl.sum(tl.sum(reshape_to_packs(tile, LANES, VECTOR), 3), 1))
    return tl.sum(add_up(total, lost), 1, keep_dims=True)


@triton.jit
def max_and_sum(
    x, x_start, x_n, begin, end, in_rows, LOWEST: tl.constexpr, HIGHEST: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each row's (maximum, sum of exponentials) over columns ``begin`` to ``end``, in one pass.

    The sum is NaN if a row has a NaN, 0 if all are -inf. HIGHEST caps maxima. If finite, it makes the sum inf for +inf.
    """
    # Maxima are at least the lowest finite number, so that no difference is -inf - -inf.
    top = tl.full([ROWS, LANES], LOWEST, ACC_DTYPE)
    total = tl.zeros([ROWS, LANES], ACC_DTYPE)
    lost = tl.zeros([ROWS, LANES], ACC_DTYPE)
    for start in range(begin, end, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < end), other=float("-inf")).to(ACC_DTYPE)
        packs = reshape_to_packs(tile, LANES, VECTOR)
        new = tl.minimum(tl.maximum(top, tl.max(tl.max(packs, 3), 1)), HIGHEST)
        terms = exponential(packs - new[:, None, :, None])
        scale = exponential(top - new)
        total, lost = add_exactly(total * scale, lost * scale, tl.sum(tl.sum(terms, 3), 1))
        top = new
    return merge_states(top, add_up(total, lost))


@triton.jit
def merge_states(top, total):
    """Merge the (max, sum) states along axis 1: the parts of each row. Return one state per row."""
    row_top = tl.max(top, 1, keep_dims=True)
    return row_top, tl.sum(total * exponential(top - row_top), 1, keep_dims=True)
