"""The minimum along an axis in Triton: by rows, by atomics, or by parts of a row that the last program joins.

``tl.min``, ``tl.minimum`` and ``tl.atomic_min`` drop a NaN, so none of them is used on floats as it comes: tiles are
joined by a minimum that propagates NaN, lanes and memory by integers in which a NaN is the lowest of all.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.triton.occupancy import current_device
from kernelzoo.kernels.triton.program import Rows, bound, row_start, rows_of, wide_dtype, wide_type
from kernelzoo.registry import Launch, register

# ---------------------------------------------------------------------------------------------------------------------
# Launch table
# ---------------------------------------------------------------------------------------------------------------------

TILE_BYTES = 16384
"""Input under way in a program: four 16-byte loads to each of 256 threads; three programs an SM make the 40 kB in
flight that its share of the memory's speed takes."""

TILE_ELEMENTS = 8192
"""A tile of one-byte elements ends here: 32 elements to a thread, which are int32 once loaded."""

TILE_THREADS = 256

LINE_BYTES = 128
"""Rows across which memory is contiguous are taken by the cache line."""

CROWD = 4
"""Programs per SM from which a chip is well filled."""

ATOMIC_ROWS = 8
"""BLOCK_M: rows of a tile of the atomic variants, as in the reference case's published tuning."""

ATOMIC_TILES = 4
"""Row tiles of one program of the atomic variants: what the batched one keeps on chip until its end."""

SPAN_ELEMENTS = 4096, 32768
"""Columns of one program of a split row, at the least and at the most: in a trial on an H200, 16384 were best for
(16, 262144) and 32768 for (64, 4194304)."""

FEW_PARTS, MANY_PARTS = 64, 1024
"""Programs to one row: the last to arrive reads the results of all. Two sizes of that tile, so that row lengths share
kernels; many rows side by side get the small one."""


def tile(rows: Rows, dtype: torch.dtype, most_rows: int) -> tuple[int, int]:
    """(ROWS, BLOCK) of a tile: whole lines of memory, along the rows or across them."""
    elements = min(TILE_BYTES // dtype.itemsize, TILE_ELEMENTS)
    if rows.across:
        side = LINE_BYTES // dtype.itemsize
        block = min(elements // side, triton.next_power_of_2(rows.n))
        return max(side, min(elements // block, most_rows)), block
    block = min(elements, triton.next_power_of_2(rows.n))
    side = min(elements // block, most_rows)
    return side, block


def identity(dtype: torch.dtype) -> float | int:
    """What a minimum over nothing would be: no element is above it."""
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor as Triton can load and compare it: bool as the byte it is."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


# ---------------------------------------------------------------------------------------------------------------------
# Kernels
# ---------------------------------------------------------------------------------------------------------------------


@triton.jit
def lower(a, b):
    """Elementwise minimum; NaN if either is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def lowest(x, AXIS: tl.constexpr):
    """Minimum of a tile along an axis; NaN if any element is.

    Bits of a float are ordered as sign and magnitude: with the magnitude of the negative ones turned over they are
    ordered as integers. A NaN becomes the lowest integer, which turns back into the NaN of all bits set.
    """
    if x.dtype.is_floating():
        BITS: tl.constexpr = tl.int64 if x.dtype == tl.float64 else tl.int32
        MAGNITUDE: tl.constexpr = 0x7FFFFFFFFFFFFFFF if x.dtype == tl.float64 else 0x7FFFFFFF
        bits = x.to(BITS, bitcast=True)
        key = tl.where(bits < 0, bits ^ MAGNITUDE, bits)
        key = tl.min(tl.where(x == x, key, -MAGNITUDE - 1), AXIS)
        result = tl.where(key < 0, key ^ MAGNITUDE, key).to(x.dtype, bitcast=True)
    else:
        result = tl.min(x, AXIS)
    return result


@triton.jit
def send(out, value, mask):
    """Lower out to value by atomics, which may come in any order; out begins as the identity.

    Bits of floats that are not negative are ordered as signed integers, those of negative ones in reverse as unsigned
    ones. A NaN goes as all bits set: below anything as a signed integer, above anything as an unsigned one. Each
    element is sent once, by one or the other.
    """
    if value.dtype.is_floating():
        SIGNED: tl.constexpr = tl.int64 if value.dtype == tl.float64 else tl.int32
        UNSIGNED: tl.constexpr = tl.uint64 if value.dtype == tl.float64 else tl.uint32
        bits = tl.where(value == value, value.to(SIGNED, bitcast=True), -1)
        signed = out.to(tl.pointer_type(SIGNED), bitcast=True)
        unsigned = out.to(tl.pointer_type(UNSIGNED), bitcast=True)
        tl.atomic_min(signed, bits, mask & (bits >= 0), sem="relaxed")
        tl.atomic_max(unsigned, bits.to(UNSIGNED, bitcast=True), mask & (bits < 0), sem="relaxed")
    else:
        tl.atomic_min(out, value, mask, sem="relaxed")


@triton.jit
def rows_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    least = tl.full([ROWS], IDENTITY, WIDE)
    for start in range(0, n, BLOCK):
        here = start + cols[None, :]
        block = tl.load(x_rows + here * x_n, in_rows & (here < n), other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, lowest(block.to(WIDE), 1))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@triton.jit
def rows_deferred_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    least = tl.full([ROWS, BLOCK], IDENTITY, WIDE)
    for start in range(0, n, BLOCK):
        here = start + cols[None, :]
        block = tl.load(x_rows + here * x_n, in_rows & (here < n), other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, block.to(WIDE))
    result = lowest(least, 1).to(out.dtype.element_ty)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result, row < rows)


@triton.jit(do_not_specialize=["blocks", "pieces"])
def atomic_eager_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, blocks, pieces, WIDE: tl.constexpr, IDENTITY: tl.constexpr,
    TILES: tl.constexpr, BLOCK_M: tl.constexpr, SUB_BLOCK_N: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    block = (program % blocks).to(tl.int64)
    first = (program // blocks).to(tl.int64) * (TILES * BLOCK_M)
    cols = tl.arange(0, SUB_BLOCK_N).to(tl.int64)
    start_n = block * pieces * SUB_BLOCK_N
    end_n = tl.minimum(start_n + pieces * SUB_BLOCK_N, n)
    for tile in range(TILES):
        if first + tile * BLOCK_M < rows:
            row = first + tile * BLOCK_M + tl.arange(0, BLOCK_M)
            x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
            in_rows = (row < rows)[:, None]
            least = tl.full([BLOCK_M, SUB_BLOCK_N], IDENTITY, WIDE)
            for start in range(start_n, end_n, SUB_BLOCK_N):
                here = start + cols[None, :]
                mask = in_rows & (here < n)
                piece = tl.load(x_rows + here * x_n, mask, other=IDENTITY, eviction_policy="evict_first")
                least = lower(least, piece.to(WIDE))
            send(out + row_start(row, inner, out_outer, out_inner, 1), lowest(least, 1), row < rows)


@triton.jit(do_not_specialize=["blocks", "pieces"])
def atomic_batched_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, blocks, pieces, WIDE: tl.constexpr, IDENTITY: tl.constexpr,
    TILES: tl.constexpr, BLOCK_M: tl.constexpr, SUB_BLOCK_N: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    block = (program % blocks).to(tl.int64)
    first = (program // blocks).to(tl.int64) * (TILES * BLOCK_M)
    cols = tl.arange(0, SUB_BLOCK_N).to(tl.int64)
    start_n = block * pieces * SUB_BLOCK_N
    end_n = tl.minimum(start_n + pieces * SUB_BLOCK_N, n)
    tiles = tl.arange(0, TILES)[:, None]
    minima = tl.full([TILES, BLOCK_M], IDENTITY, WIDE)
    for tile in range(TILES):
        if first + tile * BLOCK_M < rows:
            row = first + tile * BLOCK_M + tl.arange(0, BLOCK_M)
            x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
            in_rows = (row < rows)[:, None]
            least = tl.full([BLOCK_M, SUB_BLOCK_N], IDENTITY, WIDE)
            for start in range(start_n, end_n, SUB_BLOCK_N):
                here = start + cols[None, :]
                mask = in_rows & (here < n)
                piece = tl.load(x_rows + here * x_n, mask, other=IDENTITY, eviction_policy="evict_first")
                least = lower(least, piece.to(WIDE))
            minima = tl.where(tiles == tile, lowest(least, 1)[None, :], minima)
    row = first + tiles * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
    send(out + row_start(row, inner, out_outer, out_inner, 1), minima, row < rows)


@triton.jit(do_not_specialize=["parts", "blocks"])
def split_kernel(
    x, out, partials, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, blocks,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    tile = program // parts
    part = (program % parts).to(tl.int64)
    row = tile.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_rows = x + row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    least = tl.full([ROWS, BLOCK], IDENTITY, WIDE)
    for start in range(part * blocks * BLOCK, tl.minimum((part + 1) * blocks * BLOCK, n), BLOCK):
        here = start + cols[None, :]
        block = tl.load(x_rows + here * x_n, in_rows & (here < n), other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, block.to(WIDE))
    tl.store(partials + row * parts + part, lowest(least, 1), row < rows)
    # The barrier puts the stores of all threads before the arrival, whose release hands them to the device. The last
    # program to arrive acquires those of all others.
    tl.debug_barrier()
    if tl.atomic_add(arrivals + tile, 1, sem="acq_rel", scope="gpu") == parts - 1:
        tl.debug_barrier()
        lanes = tl.arange(0, PARTS)[None, :]
        all_parts = partials + row[:, None] * parts + lanes
        known = tl.load(all_parts, in_rows & (lanes < parts), other=IDENTITY, cache_modifier=".cg")
        result = lowest(known, 1).to(out.dtype.element_ty)
        tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result, row < rows)
        tl.store(arrivals + tile, 0)  # for the next launch


# ---------------------------------------------------------------------------------------------------------------------
# Variants
# ---------------------------------------------------------------------------------------------------------------------


@register("triton", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """By rows where there are enough of them for all of the device, otherwise by parts of rows."""
    layout = rows_of(x, out)
    side, block = tile(layout, x.dtype, TILE_ELEMENTS)
    if layout.n <= 2 * block:
        # Nothing to defer: on an H200 rows was 3 to 22 % faster from 512 to 8192 columns of floats. Of integers it was
        # not measured, and spills registers on int16.
        return (rows if x.dtype.is_floating_point else rows_deferred)(x, out)
    crowded = layout.total >= CROWD * current_device().multiprocessors * side
    return (rows_deferred if crowded else split)(x, out)


@register("triton", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    return _by_rows("triton/min/rows", rows_kernel, x, out)


@register("triton", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    return _by_rows("triton/min/rows_deferred", rows_deferred_kernel, x, out)


@register("triton", "min", "atomic_eager")
def atomic_eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over the reduced axis; each row tile's minima go out by atomics at once. Fills its output first."""
    return _by_atomics("triton/min/atomic_eager", atomic_eager_kernel, x, out)


@register("triton", "min", "atomic_batched")
def atomic_batched(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over the reduced axis; minima of all row tiles stay on chip and go out in one batch of atomics."""
    return _by_atomics("triton/min/atomic_batched", atomic_batched_kernel, x, out)


@register("triton", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row leave partial minima in a workspace, and the last to arrive reduces them: one launch.

    The launch leaves its count of arrivals at zero, and so may be repeated.
    """
    rows = rows_of(x, out)
    device = current_device()
    side, block = tile(rows, x.dtype, 1)
    least, most = SPAN_ELEMENTS
    # As many columns to a program as leave twice as many programs as there are SMs.
    span = min(max(rows.total * rows.n // (2 * device.multiprocessors * side), least // side), most // side)
    limit = MANY_PARTS if side == 1 else FEW_PARTS
    blocks = triton.cdiv(max(span, triton.cdiv(rows.n, limit)), block)
    parts = triton.cdiv(rows.n, blocks * block)
    merge = FEW_PARTS if parts <= FEW_PARTS else MANY_PARTS
    tiles = triton.cdiv(rows.total, side)
    x, out = plain(x), plain(out)
    partials = x.new_empty((rows.total, parts), dtype=wide_dtype(x.dtype))
    arrivals = x.new_zeros(tiles, dtype=torch.int32)
    args = (x, out, partials, arrivals, *rows.layout, parts, blocks)
    constants = (wide_type(x.dtype), identity(x.dtype), side, block, merge)
    return bound("triton/min/split", x, split_kernel, tiles * parts, args + constants, device.warps(TILE_THREADS))


def _by_rows(implementation: str, kernel: object, x: torch.Tensor, out: torch.Tensor) -> Launch:
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    side, block = tile(rows, x.dtype, TILE_ELEMENTS)
    args = (x, out, *rows.layout, wide_type(x.dtype), identity(x.dtype), side, block)
    warps = current_device().warps(TILE_THREADS)
    return bound(implementation, x, kernel, triton.cdiv(rows.total, side), args, warps)


def _by_atomics(implementation: str, kernel: object, x: torch.Tensor, out: torch.Tensor) -> Launch:
    x, out = plain(x), plain(out)
    # Atomics take 32 or 64 bits. What is narrower meets in a workspace, and a last step of the launch converts it.
    target = out if out.dtype.itemsize >= 4 else x.new_empty(out.shape, dtype=wide_dtype(x.dtype))
    rows = rows_of(x, target)
    device = current_device()
    side, piece = tile(rows, x.dtype, ATOMIC_ROWS)
    groups = triton.cdiv(rows.total, side * ATOMIC_TILES)
    blocks = min(triton.cdiv(rows.n, piece), triton.cdiv(CROWD * device.multiprocessors, groups))
    pieces = triton.cdiv(rows.n, piece * blocks)
    blocks = triton.cdiv(rows.n, piece * pieces)
    args = (x, target, *rows.layout, blocks, pieces, wide_type(x.dtype), identity(x.dtype), ATOMIC_TILES, side, piece)
    lower_all = bound(implementation, x, kernel, groups * blocks, args, device.warps(TILE_THREADS))
    nothing = identity(target.dtype)

    def launch() -> None:
        target.fill_(nothing)
        lower_all()
        if target is not out:
            out.copy_(target)

    return launch
