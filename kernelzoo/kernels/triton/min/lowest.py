"""Device functions of the minimum: along rows of a tile, over adjacent columns, and over the blocks of rows.

``tl.min``, ``tl.minimum`` and ``tl.atomic_min`` ignore a NaN, so none of them is applied to floats directly. Tiles are
combined by a minimum that propagates NaN. Lanes and memory are combined as integers, where NaN is the lowest.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import align, min_or_nan
from kernelzoo.kernels.triton.device_functions import head_and_body, head_and_tail
from kernelzoo.layout import Rows


@triton.jit
def row_minima(x):
    """Return the minima of a tile's rows, NaN if any element is NaN.

    The bits of a float are sign and magnitude. If the magnitude of negative floats is inverted, floats sort as
    integers. A NaN becomes the lowest integer, which is converted back to the NaN with all bits set.
    """
    if x.dtype.is_floating():
        BITS: tl.constexpr = tl.int64 if x.dtype == tl.float64 else tl.int32
        MAGNITUDE: tl.constexpr = 0x7FFFFFFFFFFFFFFF if x.dtype == tl.float64 else 0x7FFFFFFF
        bits = x.to(BITS, bitcast=True)
        key = tl.where(bits < 0, bits ^ MAGNITUDE, bits)
        key = tl.min(tl.where(x == x, key, -MAGNITUDE - 1), 1)
        result = tl.where(key < 0, key ^ MAGNITUDE, key).to(x.dtype, bitcast=True)
    else:
        result = tl.min(x, 1)
    return result


@triton.jit
def fold_columns(x, ROWS: tl.constexpr, COLS: tl.constexpr, FOLD: tl.constexpr):
    """Return the minima of every FOLD (1, 2, 4 or 8) adjacent columns. One thread has them all: no shuffle."""
    if FOLD == 1:
        result = x
    else:
        low, high = tl.split(tl.reshape(x, [ROWS, COLS // 2, 2]))
        result = fold_columns(min_or_nan(low, high), ROWS, COLS // 2, FOLD // 2)
    return result


def choose_fold(rows: Rows, dtype: torch.dtype, block: int) -> int:
    """Return FOLD for ``fold_columns``: how many adjacent columns one thread loads and can reduce by itself."""
    return min(16 // dtype.itemsize, block) if rows.x_n == 1 and not rows.is_strided and dtype.is_floating_point else 1


@triton.jit
def load_edges(
    x, x_start, n, in_rows, ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr
):
    """Return (start of each row's complete vectors, number of elements in these, values of the edge elements)."""
    if EDGES:
        before, inside = head_and_body(x_start, n, EDGES)
        edge, known = head_and_tail(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        edges = tl.load(x + (x_start + edge), in_rows & known, other=IDENTITY).to(ACC_DTYPE)
        start = align(x_start, EDGES)
    else:
        inside = n
        edges = tl.full([ROWS, 1], IDENTITY, ACC_DTYPE)
        start = x_start
    return start, inside, edges


@triton.jit
def identity_tile(n, ROWS: tl.constexpr, COLS: tl.constexpr, ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr):
    """Return a tile filled with the identity, from which a loop starts.

    In float64, infinity is selected by n >= 0, which is always true. From a constant infinity, Triton 3.9 would make a
    scalar instruction that its assembler for AMD rejects.
    """
    if ACC_DTYPE == tl.float64:  # noqa: SIM300
        result = tl.full([ROWS, COLS], tl.where(n >= 0, IDENTITY, 0.0), ACC_DTYPE)
    else:
        result = tl.full([ROWS, COLS], IDENTITY, ACC_DTYPE)
    return result


@triton.jit
def running_minima(
    x, start, x_n, n, cols, begin, end, columns, in_rows,
    ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return a tile of elementwise minima over blocks from ``begin`` to ``end``, but not past ``columns``."""
    least = identity_tile(n, ROWS, BLOCK, ACC_DTYPE, IDENTITY)
    for first in range(begin, end, BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = min_or_nan(least, block.to(ACC_DTYPE))
    return least
