import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import min_or_nan
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.pack_tiles import pack_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.min.lowest import row_minima
from kernelzoo.kernels.triton.packs import reshape_to_packs
from kernelzoo.launch import Launch
from kernelzoo.layout import min_identity, rows_of
from kernelzoo.registry import register


@triton.jit
def row_argmin(
    x, x_start, x_n, begin, end, in_rows, IDENTITY: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each row's (minimum, first index) over columns ``begin`` to ``end``. NaN counts as the minimum.

    A loop finds the first block that contains the minimum. That block is read again to find the index.
    """
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    least = tl.full([ROWS, LANES], IDENTITY, ACC_DTYPE)
    blocks = tl.zeros([ROWS, LANES], tl.int32)
    block = tl.cast(0, tl.int32)
    for start in range(begin, end, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < end), other=IDENTITY).to(ACC_DTYPE)
        new = tl.reduce(tl.reduce(reshape_to_packs(tile, LANES, VECTOR), 3, min_or_nan), 1, min_or_nan)
        blocks = tl.where((least <= new) | (least != least), blocks, block)
        least = min_or_nan(least, new)
        block += 1
    row_least = row_minima(least)[:, None]
    has = (least == row_least) | ((least != least) & (row_least != row_least))
    first = tl.min(tl.where(has, blocks, 0x7FFFFFFF), 1, keep_dims=True).to(tl.int64)
    first = begin + first * BLOCK
    cols = tl.arange(0, LANES * VECTOR)[None, :]
    found = tl.full([ROWS, LANES * VECTOR], BLOCK, tl.int32)
    for turn in range(0, BLOCK, LANES * VECTOR):
        here = first + (turn + cols)
        known = in_rows & (here < end)
        tile = tl.load(x + (x_start + here * x_n), known, other=IDENTITY).to(ACC_DTYPE)
        equal = (tile == row_least) | ((tile != tile) & (row_least != row_least))
        found = tl.minimum(found, tl.where(known & equal, turn + cols, BLOCK))
    return row_least, first + tl.min(found, 1, keep_dims=True)


@triton.jit
def argmin_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, IDENTITY: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    _, place = row_argmin(x, x_start, x_n, 0, n, row < rows, IDENTITY, ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), place, row < rows)


@register("triton", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each thread keeps its minimum and the number of its block. Then one block per row is searched for the index."""
    rows = rows_of(x, out)
    tile = pack_tile(x, rows)
    args = (x, out, *row_arguments(rows), min_identity(x.dtype), wide_type(x.dtype), *tile.constants)
    return bind_grid("triton/argmin/rows", argmin_kernel, tile.programs, args, tile.warps)
