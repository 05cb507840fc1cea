"""Softmax in Triton: a row on chip, rows side by side, a resident grid, a running pair, several programs to a row.

All kernels subtract the maximum first and scale by log2(e) after (``tl.exp`` does), since the other order loses bits
on rows with a large offset. ``tl.max`` drops a NaN, and the sum brings it back: exp(NaN - max) is NaN.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.triton.occupancy import Device, current_device, occupancy
from kernelzoo.kernels.triton.program import Rows, bound, compiled, launch_of, row_start, rows_of, wide_dtype, wide_type
from kernelzoo.registry import Launch, register

# ---------------------------------------------------------------------------------------------------------------------
# Launch table
# ---------------------------------------------------------------------------------------------------------------------

ON_CHIP_BYTES = 32768 * 4
"""The widest tile one program holds in registers: 1024 threads (the most a program may have) times 32 elements of
float32, or 16 of float64, which leaves half of the 64 registers a thread has then for everything else."""

THREAD_BYTES = 64
"""Of a tile to a thread, as computed: four 16-byte loads in flight in float32, two in half precision."""

SHORT_ROW = 256
"""Up to here a program of one row has too little to do, and tiles of several rows win. On an H200 a program per row was
faster from 512 columns on, in float32 and more so in bfloat16: (4096, 512) by 8 %, bfloat16 (4096, 1024) by 18 %."""

TILES_PER_SM = 8
"""Tiles are made no larger than leaves each SM so many: at (4096, 256), tiles of 4 rows and not of 16."""

TILE_BYTES = 4096 * 4
"""A tile of short rows: 16 elements to each of 256 threads in float32; about four such programs share an SM."""

ROWS_PER_PROGRAM = 4
"""Rows of a guarded loop: enough to spread the cost of starting a program, few enough for an even last wave."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows across which memory is contiguous are taken by the cache line, at the least by the sector of a line."""

ONLINE_BYTES = 4096 * 4
"""A block of the running pair: 16 float32 elements to each of 256 threads, with a maximum and a sum for each."""

SPLIT_BYTES = 8192 * 4
"""Columns of one program of a split row: 8192 in float32 was the best of a trial on an H200, (16, 262144)."""

FEW_PARTS, MANY_PARTS = 64, 1024
"""Programs to one row: each reads all partial results of its rows, so there must not be too many; many rows side by
side get few. Two sizes of the merge and no more, so that row lengths share kernels."""

CROWD = 4
"""Programs per SM from which a chip is well filled: with fewer rows than that, rows are split."""


def row_columns(n: int, dtype: torch.dtype, implementation: str) -> int:
    """Columns of a tile that holds a whole row. Raises UnsupportedProblemError if none can."""
    capacity = ON_CHIP_BYTES // wide_dtype(dtype).itemsize
    if n > capacity:
        raise UnsupportedProblemError(implementation, f"a row must fit on chip, {capacity} of {dtype}; got {n}")
    columns: int = triton.next_power_of_2(n)
    return columns


def tile_warps(device: Device, dtype: torch.dtype, elements: int) -> int:
    """Warps for a tile of so many elements."""
    return device.warps(elements * wide_dtype(dtype).itemsize // THREAD_BYTES)


def row_tile(rows: Rows, dtype: torch.dtype) -> tuple[int, int] | None:
    """(ROWS, COLS) of a tile of whole rows, or None if rows are too long to be taken side by side."""
    columns = triton.next_power_of_2(rows.n)
    wide = wide_dtype(dtype).itemsize
    if not rows.across:
        if columns > SHORT_ROW:
            return None
        even = triton.next_power_of_2(1 + rows.total // (TILES_PER_SM * current_device().multiprocessors))
        return max(1, min(TILE_BYTES // wide // columns, even)), columns
    # A line of memory at a time while the tile is small, then what fits on chip (a quarter of it: each element of
    # such a tile may need an address, two registers more), down to a sector.
    side = max(LINE_BYTES // dtype.itemsize, TILE_BYTES // wide // columns)
    side = min(side, ON_CHIP_BYTES // 4 // wide // columns)
    return (side, columns) if side >= SECTOR_BYTES // dtype.itemsize else None


def column_tile(rows: Rows, dtype: torch.dtype, tile_bytes: int) -> tuple[int, int]:
    """(ROWS, BLOCK) of a tile of part of a row, or of part of a line's worth of rows where memory runs across."""
    elements = tile_bytes // wide_dtype(dtype).itemsize
    if rows.across:
        side = LINE_BYTES // dtype.itemsize
        return side, elements // side
    return 1, min(elements, triton.next_power_of_2(rows.n))


# ---------------------------------------------------------------------------------------------------------------------
# Kernels
# ---------------------------------------------------------------------------------------------------------------------


@triton.jit
def softmax_of(x, AXIS: tl.constexpr):
    """Softmax of a whole tile along an axis, in the tile's own precision."""
    top = tl.max(x, AXIS, keep_dims=True)
    top = tl.where(top == float("-inf"), 0.0, top)  # a row of -inf alone: 0 / 0 makes the NaN, not -inf - -inf here
    exponentials = tl.exp(x - top)
    return exponentials * (1.0 / tl.sum(exponentials, AXIS, keep_dims=True))


@triton.jit
def fused_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, COLS)
    x += row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out += row_start(row, inner, out_outer, out_inner, MULTIPLE)
    mask = cols < n
    tile = tl.load(x + cols.to(tl.int64) * x_n, mask, other=float("-inf"), eviction_policy="evict_first")
    result = softmax_of(tile.to(WIDE), 0)
    tl.store(out + cols.to(tl.int64) * out_n, result.to(out.dtype.element_ty), mask)


@triton.jit
def row_loop_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, COLS: tl.constexpr, ROWS_PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    n *= MULTIPLE
    first = tl.program_id(0).to(tl.int64) * ROWS_PER_PROGRAM
    cols = tl.arange(0, COLS)
    mask = cols < n
    for i in range(ROWS_PER_PROGRAM):
        row = first + i
        if row < rows:
            x_row = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)
            out_row = out + row_start(row, inner, out_outer, out_inner, MULTIPLE)
            tile = tl.load(x_row + cols.to(tl.int64) * x_n, mask, other=float("-inf"), eviction_policy="evict_first")
            result = softmax_of(tile.to(WIDE), 0)
            tl.store(out_row + cols.to(tl.int64) * out_n, result.to(out.dtype.element_ty), mask)


@triton.jit
def row_tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (cols < n)[None, :]
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    here = cols.to(tl.int64)[None, :]
    tile = tl.load(x_rows + here * x_n, mask, other=float("-inf"), eviction_policy="evict_first")
    tl.store(out_rows + here * out_n, softmax_of(tile.to(WIDE), 1).to(out.dtype.element_ty), mask)


@triton.jit
def persistent_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    n *= MULTIPLE
    cols = tl.arange(0, COLS)
    mask = cols < n
    for i in tl.range(tl.program_id(0).to(tl.int64), rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(i, tl.int64)
        x_row = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_row = out + row_start(row, inner, out_outer, out_inner, MULTIPLE)
        tile = tl.load(x_row + cols.to(tl.int64) * x_n, mask, other=float("-inf"))
        result = softmax_of(tile.to(WIDE), 0)
        tl.store(out_row + cols.to(tl.int64) * out_n, result.to(out.dtype.element_ty), mask)


@triton.jit
def online_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, LOWEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    # Every lane keeps a pair of its own, and lanes meet once, after the loop. A maximum starts at the lowest finite
    # number, so that no difference of two is -inf - -inf.
    top = tl.full([ROWS, BLOCK], LOWEST, WIDE)
    total = tl.zeros_like(top)
    for start in range(0, n, BLOCK):
        here = start + cols[None, :]
        tile = tl.load(x_rows + here * x_n, in_rows & (here < n), other=float("-inf")).to(WIDE)
        rise = tile - top
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = tl.exp(-tl.abs(rise))
        total = tl.where(rise > 0, total * scale + 1, total + scale)
        top = tl.maximum(top, tile)
    row_top = tl.max(top, 1, keep_dims=True)
    inverse = 1.0 / tl.sum(total * tl.exp(top - row_top), 1, keep_dims=True)
    for start in range(0, n, BLOCK):
        here = start + cols[None, :]
        mask = in_rows & (here < n)
        tile = tl.load(x_rows + here * x_n, mask, other=float("-inf"), eviction_policy="evict_first")
        result = tl.exp(tile.to(WIDE) - row_top) * inverse
        tl.store(out_rows + here * out_n, result.to(out.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["parts", "blocks"])
def split_partials_kernel(
    x, tops, totals, rows, n, inner, x_outer, x_n, x_inner,
    MULTIPLE: tl.constexpr, parts, blocks,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    part = (program % parts).to(tl.int64)
    row = (program // parts).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    top = tl.full([ROWS], LOWEST, tops.dtype.element_ty)  # finite: see online_kernel
    total = tl.zeros_like(top)
    for start in range(part * blocks * BLOCK, tl.minimum((part + 1) * blocks * BLOCK, n), BLOCK):
        here = start + cols[None, :]
        tile = tl.load(x_rows + here * x_n, in_rows & (here < n), other=float("-inf")).to(WIDE)
        new_top = tl.maximum(top, tl.max(tile, 1))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(tile - new_top[:, None]), 1)
        top = new_top
    tl.store(tops + row * parts + part, top, row < rows)
    tl.store(totals + row * parts + part, total, row < rows)


@triton.jit(do_not_specialize=["parts", "blocks"])
def split_write_kernel(
    x, out, tops, totals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, blocks,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    # The first pass left its last programs' columns in L2, so this one begins with them.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    part = (program % parts).to(tl.int64)
    row = (program // parts).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    # Every program merges all pairs of its rows in the same order, so that all agree to the bit.
    lanes = tl.arange(0, PARTS)[None, :]
    known = in_rows & (lanes < parts)
    row_tops = tl.load(tops + row[:, None] * parts + lanes, known, other=LOWEST)
    row_totals = tl.load(totals + row[:, None] * parts + lanes, known, other=0)
    top = tl.max(row_tops, 1, keep_dims=True)
    inverse = 1.0 / tl.sum(row_totals * tl.exp(row_tops - top), 1, keep_dims=True)
    for start in range(part * blocks * BLOCK, tl.minimum((part + 1) * blocks * BLOCK, n), BLOCK):
        here = start + cols[None, :]
        mask = in_rows & (here < n)
        tile = tl.load(x_rows + here * x_n, mask, other=float("-inf"), eviction_policy="evict_first")
        result = tl.exp(tile.to(WIDE) - top) * inverse
        tl.store(out_rows + here * out_n, result.to(out.dtype.element_ty), mask)


# ---------------------------------------------------------------------------------------------------------------------
# Variants
# ---------------------------------------------------------------------------------------------------------------------


@register("triton", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Tiles of short rows, a program per row that fits on chip, and for longer rows online if many, split if few."""
    rows = rows_of(x, out)
    crowd = CROWD * current_device().multiprocessors
    if row_tile(rows, x.dtype) is not None:
        return multi_row(x, out)
    if not rows.across and rows.n <= ON_CHIP_BYTES // wide_dtype(x.dtype).itemsize:
        return fused(x, out)
    side, _ = column_tile(rows, x.dtype, ONLINE_BYTES)
    return (online if rows.total >= crowd * side else split)(x, out)


@register("triton", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip: one read, one write.

    After Triton's tutorial (python/tutorials/02-fused-softmax.py) in its first form.
    """
    rows = rows_of(x, out)
    columns = row_columns(rows.n, x.dtype, "triton/softmax/fused")
    warps = tile_warps(current_device(), x.dtype, columns)
    args = (x, out, *rows.layout, wide_type(x.dtype), columns)
    return bound("triton/softmax/fused", x, fused_kernel, rows.total, args, warps)


@register("triton", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several consecutive rows to a program: a tile of them where rows are short, a guarded loop where they are not.

    Where memory is contiguous across rows (a reduction over dim 0), the tile also makes the loads contiguous.
    """
    rows = rows_of(x, out)
    device = current_device()
    tile = row_tile(rows, x.dtype)
    if tile is not None:
        side, columns = tile
        kernel, constants, elements = row_tile_kernel, (side, columns), side * columns
    else:
        side, columns = ROWS_PER_PROGRAM, row_columns(rows.n, x.dtype, "triton/softmax/multi_row")
        kernel, constants, elements = row_loop_kernel, (columns, side), columns
    args = (x, out, *rows.layout, wide_type(x.dtype), *constants)
    programs = triton.cdiv(rows.total, side)
    return bound("triton/softmax/multi_row", x, kernel, programs, args, tile_warps(device, x.dtype, elements))


@register("triton", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid that fills the device once and strides over the rows, the next rows' loads in flight.

    After Triton's tutorial (python/tutorials/02-fused-softmax.py) in its last form.
    """
    rows = rows_of(x, out)
    columns = row_columns(rows.n, x.dtype, "triton/softmax/persistent")
    device = current_device()
    warps = tile_warps(device, x.dtype, columns)
    # Four rows under way where an SM has the shared memory for it, two otherwise. All but the one in registers lie in
    # shared memory, beside 4 kB for reductions: the longest rows are fewer.
    stages = 4 if device.shared_memory > 200 * 1024 else 2
    stages = min(stages, 1 + (device.shared_memory - 4096) // (columns * x.element_size()))
    args = (x, out, *rows.layout, wide_type(x.dtype), columns, stages)
    program = compiled(x, persistent_kernel, args, warps, stages)
    resident = 1 if program is None else occupancy(device, program.n_regs, warps, program.metadata.shared)
    programs = min(rows.total, device.multiprocessors * resident)
    return launch_of("triton/softmax/persistent", persistent_kernel, program, programs, args)


@register("triton", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over column blocks that keeps a running (max, sum) pair in each lane, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows = rows_of(x, out)
    side, block = column_tile(rows, x.dtype, ONLINE_BYTES)
    args = (x, out, *rows.layout, wide_type(x.dtype), torch.finfo(wide_dtype(x.dtype)).min, side, block)
    warps = tile_warps(current_device(), x.dtype, side * block)
    return bound("triton/softmax/online", x, online_kernel, triton.cdiv(rows.total, side), args, warps)


@register("triton", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row: a launch for their partial (max, sum) pairs, a launch that merges and writes."""
    rows = rows_of(x, out)
    device = current_device()
    side, block = column_tile(rows, x.dtype, SPLIT_BYTES)
    tiles = triton.cdiv(rows.total, side)
    # Blocks as long as SPLIT_BYTES says, or half of it where that leaves the chip short of programs.
    if not rows.across and tiles * triton.cdiv(rows.n, block) < CROWD * device.multiprocessors:
        block = max(1, block // 2)
    limit = MANY_PARTS if side == 1 else FEW_PARTS
    blocks = triton.cdiv(rows.n, block * limit)
    parts = triton.cdiv(rows.n, blocks * block)
    merge = FEW_PARTS if parts <= FEW_PARTS else MANY_PARTS
    wide = wide_dtype(x.dtype)
    tops, totals = x.new_empty((2, rows.total, parts), dtype=wide)
    lowest = torch.finfo(wide).min
    warps = tile_warps(device, x.dtype, side * block)
    constants = (parts, blocks, wide_type(x.dtype), lowest, side, block)
    pairs = (x, tops, totals, *rows.reading, rows.multiple, *constants)
    partials = bound("triton/softmax/split", x, split_partials_kernel, tiles * parts, pairs, warps)
    whole = (x, out, tops, totals, *rows.layout, *constants, merge)
    write = bound("triton/softmax/split", x, split_write_kernel, tiles * parts, whole, warps)

    def launch() -> None:
        partials()
        write()

    return launch
