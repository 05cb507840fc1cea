"""Device functions of the minimum: what is lower, what is lowest, and how programs join what they found.

``tl.min``, ``tl.minimum`` and ``tl.atomic_min`` drop a NaN, so none of them is used on floats as it comes: tiles are
joined by a minimum that propagates NaN, lanes and memory by integers in which a NaN is the lowest of all.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import aligned, lower
from kernelzoo.kernels.triton.device_functions import edge_columns, whole_vectors
from kernelzoo.layout import Rows


@triton.jit
def lowest(x):
    """Minima of a tile's rows; NaN if any element is.

    Bits of a float are ordered as sign and magnitude: with the magnitude of the negative ones turned over they are
    ordered as integers. A NaN becomes the lowest integer, which turns back into the NaN of all bits set.
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
def folded(x, ROWS: tl.constexpr, COLS: tl.constexpr, FOLD: tl.constexpr):
    """Minima of FOLD (1, 2, 4 or 8) neighbouring columns, which one thread has loaded. No lane has to ask another."""
    if FOLD == 1:
        result = x
    else:
        low, high = tl.split(tl.reshape(x, [ROWS, COLS // 2, 2]))
        result = folded(lower(low, high), ROWS, COLS // 2, FOLD // 2)
    return result


def fold_of(rows: Rows, dtype: torch.dtype, block: int) -> int:
    """Neighbouring columns that one thread loads, and can reduce by itself: FOLD of ``folded``."""
    return min(16 // dtype.itemsize, block) if rows.x_n == 1 and not rows.across and dtype.is_floating_point else 1


@triton.jit
def body_and_edges(
    x, x_start, n, in_rows, WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr
):
    """(start, columns, edges): where rows' whole vectors begin, elements there, and the elements outside of them."""
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        edges = tl.load(x + (x_start + edge), in_rows & known, other=IDENTITY).to(WIDE)
        start = aligned(x_start, EDGES)
    else:
        inside = n
        edges = tl.full([ROWS, 1], IDENTITY, WIDE)
        start = x_start
    return start, inside, edges


@triton.jit
def nothing_yet(n, ROWS: tl.constexpr, COLS: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr):
    """A tile of the identity, for a loop over n columns to begin with.

    Infinity in 64 bits is chosen by n, which is never negative: as a constant, Triton 3.9 for AMD puts it into one
    scalar instruction, which its own assembler rejects.
    """
    if WIDE == tl.float64:  # noqa: SIM300
        result = tl.full([ROWS, COLS], tl.where(n >= 0, IDENTITY, 0.0), WIDE)
    else:
        result = tl.full([ROWS, COLS], IDENTITY, WIDE)
    return result


@triton.jit
def running_minima(
    x, start, x_n, n, cols, begin, end, columns, in_rows,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each place's minimum over the blocks of a tile's rows from begin to end, up to columns."""
    least = nothing_yet(n, ROWS, BLOCK, WIDE, IDENTITY)
    for first in range(begin, end, BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, block.to(WIDE))
    return least
