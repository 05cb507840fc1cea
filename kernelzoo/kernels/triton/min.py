"""The minimum along an axis in Triton: by rows, by atomics, or by parts of a row that the last program joins.

``tl.min``, ``tl.minimum`` and ``tl.atomic_min`` drop a NaN, so none of them is used on floats as it comes: tiles are
joined by a minimum that propagates NaN, lanes and memory by integers in which a NaN is the lowest of all.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.triton.occupancy import Device, current_device
from kernelzoo.kernels.triton.program import (
    MAX_PROGRAMS,
    Columns,
    Rows,
    await_last_launch,
    bound,
    columns_of_rows,
    edge_columns,
    edges_of,
    ragged_tile,
    row_start,
    rows_of,
    whole_vectors,
    wide_dtype,
    wide_type,
)
from kernelzoo.ops import in_halves
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table, of
from kernelzoo.workspace import owning

# ---------------------------------------------------------------------------------------------------------------------
# Launch table
# ---------------------------------------------------------------------------------------------------------------------

TILE_ELEMENTS = 8192
"""A tile of elements narrower than that ends here."""

LINE_BYTES = 128
"""Rows across which memory is contiguous are taken by the cache line."""

ACROSS_BYTES = 65536
"""Of a tile across rows that the variants of tiles take, to 512 threads."""

COLUMN_PILE = 8
"""Vectors of columns that a thread asks for at once, while it compares those before them."""

FLAT_LANES = 128
"""Rows of a flat piece of memory: one to a thread, so that no lane asks another."""

FLAT_COLUMNS = 512
"""Columns that are few: they are read as one piece of memory, if there are no gaps."""

MANY_PARTS = 1024
"""Programs to one row, at the most: the last to arrive reads the results of all. The tile of them has two sizes, this
and ``few_parts``, so that row lengths share kernels; many rows side by side get the small one."""


@launch_table("triton", "min")
class Knobs:
    """What depends on the card. Shipped values are an H200's."""

    # Three or four such programs an SM make the 40 kB and more in flight that its share of the memory's speed takes.
    tile_bytes: int = knob(
        16384, among=(8192, 16384, 32768), unit="bytes", why="of input under way in a program of one row"
    )
    # Eight 16-byte loads to a lane. No warp waits for another.
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )
    row_bytes: int = knob(
        32768,
        among=(16384, 32768, 65536),
        unit="bytes",
        why="of a row that is read at once, or in halves at the most: nothing to defer",
    )
    # bfloat16 (512, 65536) takes 19.2 us on an H200 so, and 22.0 in programs of 256 threads; (100, 65537) 7.2 and 17.9.
    short_across: int = knob(
        512, among=(256, 512, 1024), unit="elements", why="of columns that programs of 128 threads take whole"
    )
    # bfloat16 (8192, 8192) takes 33.7 us so, and 36.3 in programs of 256 threads. Shorter ones: (64, 1024, 96) over
    # dim 1 6.9 and 6.7.
    long_across: int = knob(
        4096, among=(2048, 4096, 16384), unit="elements", why="of columns that programs of 512 threads take whole"
    )
    crowd: int = knob(
        4,
        among=(2, 4, 8),
        unit="programs per SM",
        why="from which a chip is well filled: of rows with fewer, several programs take each",
    )
    across_crowd: int = knob(
        2, among=(1, 2, 4), unit="programs per SM", why="that split makes of columns, each with 32 kB under way"
    )
    across_percent: int = knob(
        50,
        among=(25, 50, 100),
        unit="% of the SMs",
        why="with a tile of columns each, below which several programs take each tile",
    )
    flat_row: int = knob(
        64,
        among=(0, 32, 64),
        unit="elements",
        why="of rows without gaps, no multiple of 16 bytes, that are read as one piece of memory",
    )
    # BLOCK_M, as in the reference case's published tuning.
    atomic_rows: int = knob(8, among=(4, 8, 16), unit="rows", why="of a tile of the atomic variants")
    atomic_tiles: int = knob(
        4,
        among=(2, 4, 8),
        unit="tiles",
        why="of one program of the atomic variants: what the batched one keeps on chip until its end",
    )
    span_elements: int = knob(
        4096, among=(2048, 4096, 8192), unit="columns", why="of one program of a split row, at the least"
    )
    few_parts: int = knob(
        64, among=(32, 64, 128), unit="programs", why="to one row, whose results the last reads as the smaller tile"
    )


class Tile(NamedTuple):
    """A tile of a program, its sides powers of two, and the threads that read it."""

    rows: int
    block: int
    threads: int


def row_tile(knobs: Knobs, rows: Rows, dtype: torch.dtype, edges: int) -> Tile:
    """The tile of the kernels that take whole rows: several short ones, one at once, or a block of a long one."""
    columns = triton.next_power_of_2(rows.n // edges * edges if edges else rows.n)
    if rows.across or columns * dtype.itemsize > knobs.row_bytes:
        return block_tile(knobs, rows, dtype, TILE_ELEMENTS)
    # 64 bytes to a thread, and more to the threads of a single warp.
    block = min(columns, TILE_ELEMENTS)
    most = knobs.warp_bytes // dtype.itemsize if dtype.itemsize > 1 else TILE_ELEMENTS // 4
    # As many as the row can feed, of halves as many as the tile has, lest a thread hold more than 32.
    threads = max(32, (block if dtype.itemsize == 2 else min(rows.n, block)) * dtype.itemsize // 64)
    return Tile(max(1, most // block), block, triton.next_power_of_2(threads + 1) // 2)


def block_tile(knobs: Knobs, rows: Rows, dtype: torch.dtype, most_rows: int) -> Tile:
    """The tile of the kernels that loop over blocks of columns: whole lines of memory, along rows or across them."""
    if rows.across:
        side = LINE_BYTES // dtype.itemsize
        # Elements that are read one by one need an address each, and registers for it.
        wide = dtype.itemsize > 1 and rows.x_n * dtype.itemsize % 16 == 0
        elements = min(ACROSS_BYTES // dtype.itemsize, (4 if wide else 2) * TILE_ELEMENTS)
        block = min(elements // side, triton.next_power_of_2(rows.n))
        return Tile(side, block, min(512, max(128, side * block // 16)))
    elements = min(knobs.tile_bytes // dtype.itemsize, TILE_ELEMENTS)
    block = min(elements, triton.next_power_of_2(rows.n))
    return Tile(min(elements // block, most_rows), block, 128 if dtype.itemsize == 1 else 256)


class ColumnTile(NamedTuple):
    """A tile of columns: elements to a load, blocks of a thread's loads above each other, elements of each column in
    one, columns that its lanes hold, those that are its own, and threads."""

    vector: int
    pile: int
    depth: int
    lanes: int
    columns: int
    threads: int


def column_tile(
    columns: Columns, x: torch.Tensor, threads: int = 256, line: int = LINE_BYTES, pile: int = COLUMN_PILE
) -> ColumnTile:
    """A tile of so many threads and loads to a thread, as wide as so many bytes of a line of memory."""
    itemsize = x.element_size()
    vector = 16 // itemsize
    # Rows of less than a vector might end in the one that reaches past the memory, not the last alone.
    if columns.x_inner != 1 or x.data_ptr() % 16 or columns.x_n < vector:
        vector = 1
    shifted = columns.multiple % vector != 0
    lanes = min(line // itemsize, triton.next_power_of_2(columns.inner + (vector if shifted else 0)))
    lanes = max(lanes, 2 * vector)
    # Every place in a vector that a line may begin at; of wide lines of bytes, more than a load to each thread.
    depth = max(vector if shifted else 1, threads * vector // lanes)
    pile = max(1, pile * threads * vector // (depth * lanes))
    return ColumnTile(vector, pile, depth, lanes, lanes - vector if shifted else lanes, threads)


def whole_column_tile(knobs: Knobs, columns: Columns, x: torch.Tensor, device: Device) -> ColumnTile:
    """The tile of programs that take whole columns."""
    tile = column_tile(columns, x)
    shifted = tile.columns < tile.lanes
    if columns.n <= knobs.short_across:
        # Shifted lines lose a vector each: bfloat16 (100, 65537) takes 7.2 us, and 13.2 by 128 bytes.
        return column_tile(columns, x, 128, 2 * LINE_BYTES if shifted else LINE_BYTES)
    if columns.n < knobs.long_across or shifted:
        return tile
    # Half as much to a thread where two programs must share a multiprocessor's registers: float32 (8192, 8192) takes
    # 65.2 us, and 67.7 by a full pile.
    alone = columns.strips(tile.columns) <= device.multiprocessors
    return column_tile(columns, x, 512, pile=COLUMN_PILE if alone else COLUMN_PILE // 2)


class FlatTile(NamedTuple):
    """Blocks of few columns: how many lie above each other, elements that one has room for, those of whole rows of
    columns and whole vectors, programs to a slab, and threads."""

    pile: int
    block: int
    period: int
    parts: int
    threads: int


def flat_tile(knobs: Knobs, columns: Columns, x: torch.Tensor, device: Device) -> FlatTile | None:
    """The tile of flat_columns_kernel, None where it doesn't pay: a vector to a thread and block."""
    itemsize = x.element_size()
    vector = 16 // itemsize
    if columns.x_inner != 1 or columns.x_n != columns.inner or x.data_ptr() % 16 or columns.inner > FLAT_COLUMNS:
        return None
    if columns.inner < vector or (columns.multiple == vector and columns.inner * itemsize >= 4 * LINE_BYTES):
        return None
    threads = 256
    block, least = threads * vector, math.lcm(columns.inner, vector)
    period = block // least * least
    if 10 * period < 9 * block:
        return None
    pieces = columns.n * columns.inner // (period * COLUMN_PILE)
    parts = min(knobs.across_crowd * device.multiprocessors // columns.outer, pieces // 2)
    return FlatTile(COLUMN_PILE, block, period, parts, threads) if parts > 1 else None


def fold_of(rows: Rows, dtype: torch.dtype, block: int) -> int:
    """Neighbouring columns that one thread loads, and can reduce by itself."""
    return min(16 // dtype.itemsize, block) if rows.x_n == 1 and not rows.across and dtype.is_floating_point else 1


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
def folded(x, ROWS: tl.constexpr, COLS: tl.constexpr, FOLD: tl.constexpr):
    """Minima of FOLD (1, 2, 4 or 8) neighbouring columns, which one thread has loaded: no lane has to ask another."""
    if FOLD == 1:
        result = x
    else:
        low, high = tl.split(tl.reshape(x, [ROWS, COLS // 2, 2]))
        result = folded(lower(low, high), ROWS, COLS // 2, FOLD // 2)
    return result


@triton.jit
def body_and_edges(
    x, x_start, n, in_rows, WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr
):
    """(start, columns, edges): where rows' whole vectors begin, elements there, and the elements outside of them."""
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        edges = tl.load(x + (x_start + edge), in_rows & known, other=IDENTITY).to(WIDE)
        start = (x_start + EDGES - 1) // EDGES * EDGES
    else:
        inside = n
        edges = tl.full([ROWS, 1], IDENTITY, WIDE)
        start = x_start
    return start, inside, edges


@triton.jit
def end_of_vectors(n, EDGES: tl.constexpr):
    """Where whole vectors of a row of n elements end at the latest, counted from the first of them."""
    return n // EDGES * EDGES if EDGES else n


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
def rows_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    start, columns, edges = body_and_edges(x, x_start, n, in_rows, WIDE, IDENTITY, EDGES, ROWS)
    least = tl.full([ROWS], IDENTITY, WIDE)
    for first in range(0, end_of_vectors(n, EDGES), BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, lowest(folded(block.to(WIDE), ROWS, BLOCK, FOLD), 1))
    least = lower(least, lowest(edges, 1))  # last, so that nothing waits for the edges before the rest is under way
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@triton.jit
def rows_deferred_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    start, columns, edges = body_and_edges(x, x_start, n, in_rows, WIDE, IDENTITY, EDGES, ROWS)
    least = nothing_yet(n, ROWS, BLOCK, WIDE, IDENTITY)
    for first in range(0, end_of_vectors(n, EDGES), BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, block.to(WIDE))
    least = lower(lowest(folded(least, ROWS, BLOCK, FOLD), 1), lowest(edges, 1))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@triton.jit
def rows_ragged_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, safe,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr,
    ROWS: tl.constexpr, PACKS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Short rows with edges that LANES threads share, the edges read by whole vectors as well."""
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at_row = row[:, None, None]
    x_start = row_start(at_row, inner, x_outer, x_inner, MULTIPLE)
    before, inside = whole_vectors(x_start, n, EDGES)
    before, inside = before.to(tl.int32), inside.to(tl.int32)
    body = (x_start + EDGES - 1) // EDGES * EDGES
    after = n - before - inside
    tile, _, edges, _, _ = ragged_tile(
        x, body, at_row, at_row < rows, safe, before, inside, after, WIDE, IDENTITY, EDGES, LANES, PACKS, "evict_first"
    )
    least = tl.reduce(tl.reduce(tile, 1, lower), 1, lower)
    least = lower(least, tl.reduce(tl.reduce(edges, 1, lower), 1, lower))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@triton.jit
def columns_of(flat, n, last, first, nothing, WIDE: tl.constexpr, LANES: tl.constexpr, COLS: tl.constexpr):
    """Columns [first, first + COLS) of rows that lie in flat, n elements each, as a tile [COLS, LANES].

    A column is then one register to all threads, since each of LANES threads has a row; the last row serves for those
    that have none.
    """
    at = tl.arange(0, LANES * COLS)
    at = tl.minimum(at % LANES, last) * n + (first + at // LANES)
    columns = tl.reshape(tl.gather(flat, at, 0), [COLS, LANES]).to(WIDE)
    return tl.where((first + tl.arange(0, COLS) < n)[:, None], columns, nothing)


@triton.jit
def folded_rows(x, COLS: tl.constexpr, LANES: tl.constexpr):
    """Minima down a tile [COLS, LANES], of which a thread has whole columns: [1, LANES]."""
    if COLS == 1:
        result = x
    else:
        low, high = tl.split(tl.permute(tl.reshape(x, [2, COLS // 2, LANES]), (1, 2, 0)))
        result = folded_rows(lower(low, high), COLS // 2, LANES)
    return result


@triton.jit
def rows_flat_kernel(
    x, out, rows, out_outer, n, side,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, VECTOR: tl.constexpr,
    LANES: tl.constexpr, COLS: tl.constexpr, REST: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """Short rows without gaps: side times VECTOR of them are one piece of memory, which is read by whole vectors."""
    await_last_launch()
    first = tl.program_id(0).to(tl.int64) * side * VECTOR
    here = tl.minimum(rows - first, side * VECTOR).to(tl.int32)
    x += first * n
    flat = tl.arange(0, FLAT)
    inside = here * n // VECTOR * VECTOR
    tile = tl.load(x + flat, flat < inside, other=0, eviction_policy="evict_first")
    if inside < here * n:
        ragged = (flat >= inside) & (flat < here * n)
        tile = tl.where(ragged, tl.load(x + flat, ragged, other=0), tile)
    columns = columns_of(tile, n, here - 1, 0, IDENTITY, WIDE, LANES, COLS)
    least = lowest(folded_rows(columns, COLS, LANES), 0)
    if REST:
        columns = columns_of(tile, n, here - 1, COLS, IDENTITY, WIDE, LANES, REST)
        least = lower(least, lowest(folded_rows(columns, REST, LANES), 0))
    row = tl.arange(0, LANES)
    tl.store(out + (first + row) * out_outer, least.to(out.dtype.element_ty), row < here)


@triton.jit(do_not_specialize=["blocks", "pieces"])
def atomic_eager_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, blocks, pieces, WIDE: tl.constexpr, IDENTITY: tl.constexpr,
    EDGES: tl.constexpr, FOLD: tl.constexpr,
    TILES: tl.constexpr, BLOCK_M: tl.constexpr, SUB_BLOCK_N: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    block = (program % blocks).to(tl.int64)
    first = (program // blocks).to(tl.int64) * (TILES * BLOCK_M)
    cols = tl.arange(0, SUB_BLOCK_N).to(tl.int64)
    start_n = block * pieces * SUB_BLOCK_N
    end_n = tl.minimum(start_n + tl.cast(pieces, tl.int64) * SUB_BLOCK_N, end_of_vectors(n, EDGES))
    for tile in range(TILES):
        if first + tile * BLOCK_M < rows:
            row = first + tile * BLOCK_M + tl.arange(0, BLOCK_M)
            x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
            in_rows = (row < rows)[:, None]
            # Of the edges, every block may take them: a minimum doesn't mind to see an element twice.
            start, columns, edges = body_and_edges(x, x_start, n, in_rows, WIDE, IDENTITY, EDGES, BLOCK_M)
            least = nothing_yet(n, BLOCK_M, SUB_BLOCK_N, WIDE, IDENTITY)
            for first_n in range(start_n, end_n, SUB_BLOCK_N):
                here = first_n + cols[None, :]
                mask = in_rows & (here < columns)
                piece = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
                least = lower(least, piece.to(WIDE))
            result = lower(lowest(folded(least, BLOCK_M, SUB_BLOCK_N, FOLD), 1), lowest(edges, 1))
            send(out + row_start(row, inner, out_outer, out_inner, 1), result, row < rows)


@triton.jit(do_not_specialize=["blocks", "pieces"])
def atomic_batched_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, blocks, pieces, WIDE: tl.constexpr, IDENTITY: tl.constexpr,
    EDGES: tl.constexpr, FOLD: tl.constexpr,
    TILES: tl.constexpr, BLOCK_M: tl.constexpr, SUB_BLOCK_N: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    block = (program % blocks).to(tl.int64)
    first = (program // blocks).to(tl.int64) * (TILES * BLOCK_M)
    cols = tl.arange(0, SUB_BLOCK_N).to(tl.int64)
    start_n = block * pieces * SUB_BLOCK_N
    end_n = tl.minimum(start_n + tl.cast(pieces, tl.int64) * SUB_BLOCK_N, end_of_vectors(n, EDGES))
    tiles = tl.arange(0, TILES)[:, None]
    minima = tl.full([TILES, BLOCK_M], IDENTITY, WIDE)
    for tile in range(TILES):
        if first + tile * BLOCK_M < rows:
            row = first + tile * BLOCK_M + tl.arange(0, BLOCK_M)
            x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
            in_rows = (row < rows)[:, None]
            # Of the edges, every block may take them: a minimum doesn't mind to see an element twice.
            start, columns, edges = body_and_edges(x, x_start, n, in_rows, WIDE, IDENTITY, EDGES, BLOCK_M)
            least = nothing_yet(n, BLOCK_M, SUB_BLOCK_N, WIDE, IDENTITY)
            for first_n in range(start_n, end_n, SUB_BLOCK_N):
                here = first_n + cols[None, :]
                mask = in_rows & (here < columns)
                piece = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
                least = lower(least, piece.to(WIDE))
            result = lower(lowest(folded(least, BLOCK_M, SUB_BLOCK_N, FOLD), 1), lowest(edges, 1))
            minima = tl.where(tiles == tile, result[None, :], minima)
    row = first + tiles * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
    send(out + row_start(row, inner, out_outer, out_inner, 1), minima, row < rows)


@triton.jit(do_not_specialize=["parts", "span"])
def split_kernel(
    x, out, partials, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, WIDE: tl.constexpr, IDENTITY: tl.constexpr,
    EDGES: tl.constexpr, FOLD: tl.constexpr, VECTOR: tl.constexpr, ONCE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    tile = program // parts
    part = (program % parts).to(tl.int64)
    row = tile.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    start, columns, edges = body_and_edges(x, x_start, n, in_rows & (part == 0), WIDE, IDENTITY, EDGES, ROWS)
    begin = part * span * VECTOR
    columns = tl.minimum(columns, begin + tl.cast(span, tl.int64) * VECTOR)
    if ONCE:
        here = begin + cols[None, :]
        mask = in_rows & (here < columns)
        least = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first").to(WIDE)
    else:
        least = nothing_yet(n, ROWS, BLOCK, WIDE, IDENTITY)
        end = tl.minimum(begin + tl.cast(span, tl.int64) * VECTOR, end_of_vectors(n, EDGES))
        for first in range(begin, end, BLOCK):
            here = first + cols[None, :]
            mask = in_rows & (here < columns)
            block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
            least = lower(least, block.to(WIDE))
    least = lower(lowest(folded(least, ROWS, BLOCK, FOLD), 1), lowest(edges, 1))
    tl.store(partials + row * parts + part, least, row < rows)
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


@triton.jit
def joined(
    least, partials, arrivals, tile, part, parts, there,
    IDENTITY: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """(last, least): whether all other parts of a tile of COLUMNS columns have left their minima, and those of all."""
    column = tl.arange(0, COLUMNS)
    all_parts = partials + tile.to(tl.int64) * parts * COLUMNS + column
    tl.store(all_parts + part * COLUMNS, least.to(partials.dtype.element_ty), there)
    tl.debug_barrier()  # as in split_kernel
    last = tl.atomic_add(arrivals + tile, 1, sem="acq_rel", scope="gpu") == parts - 1
    if last:
        tl.debug_barrier()
        running = tl.full([CHUNK, COLUMNS], IDENTITY, least.dtype)
        for first in range(0, parts, CHUNK):
            peer = first + tl.arange(0, CHUNK)[:, None]
            known = (peer < parts) & there[None, :]
            found = tl.load(all_parts[None, :] + peer * COLUMNS, known, other=IDENTITY, cache_modifier=".cg")
            running = lower(running, found.to(least.dtype))
        least = tl.reduce(running, 0, lower)
        tl.store(arrivals + tile, 0)  # for the next launch
    return last, least


@triton.jit
def column_minima(tile, WIDE: tl.constexpr, PILE: tl.constexpr, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """Minima of a tile's blocks, which lie above each other: a thread holds the same place of all."""
    return tl.reduce(tl.reshape(tile.to(WIDE), [PILE, DEPTH, LANES]), 0, lower)


@triton.jit(do_not_specialize=["whole", "parts", "span"])
def columns_kernel(
    x, out, partials, arrivals, outer, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, whole, parts, span, WIDE: tl.constexpr, IDENTITY: tl.constexpr, VECTOR: tl.constexpr,
    ALL: tl.constexpr, PILE: tl.constexpr, DEPTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Columns side by side: a program reads span elements of as many as LANES hold, PILE blocks of DEPTH at a time.

    Where they start anywhere in a vector, each line of the tile begins with the one that holds its first element. Lines
    DEPTH apart begin at the same place of it, so that a lane meets one column all the way; they are shifted at the end.
    The last vector may reach past the memory, of which whole elements are whole vectors: the rest is read one by one.
    """
    await_last_launch()
    SHIFTED: tl.constexpr = MULTIPLE % VECTOR != 0
    TILE: tl.constexpr = LANES - VECTOR if SHIFTED else LANES
    STEP: tl.constexpr = PILE * DEPTH
    inner = tl.cast(inner, tl.int64) * MULTIPLE
    step = tl.cast(x_n, tl.int64) * MULTIPLE
    strips = (inner + TILE - 1) // TILE
    program = tl.program_id(0)
    tile = program // parts
    part = program % parts
    slab = tile // strips
    first = tile % strips * TILE
    depth = tl.arange(0, STEP)
    lane = tl.arange(0, LANES)
    begin = part.to(tl.int64) * span
    rows = tl.minimum(n - begin, span)
    x_first = slab * x_outer * MULTIPLE + first * x_inner
    start = x_first + (begin + depth) * step
    there = first + lane < inner
    own = there[None, :]
    edge = tl.full([LANES], IDENTITY, WIDE)
    if SHIFTED:
        shift = (start % VECTOR).to(tl.int32)
        start = start // VECTOR * VECTOR
        width = tl.minimum(inner - first, TILE).to(tl.int32)
        there = lane < width
        own = lane[None, :] < ((shift + width + VECTOR - 1) // VECTOR * VECTOR)[:, None]
        end = x_first + (n - 1) * step + lane
        edge = tl.load(x + end, there & (end >= tl.cast(whole, tl.int64) * VECTOR), other=IDENTITY).to(WIDE)
    here = start[:, None] + (lane * x_inner)[None, :]
    blocks = (rows - 1) // STEP  # and one more, which may not be whole
    last_here = here + blocks * (step * STEP)
    last_own = own & (depth < (rows - blocks * STEP).to(tl.int32))[:, None]
    if SHIFTED:
        last_own = last_own & (last_here < tl.cast(whole, tl.int64) * VECTOR)
    block = tl.load(x + last_here, last_own, other=IDENTITY, eviction_policy="evict_first")
    least = tl.full([DEPTH, LANES], IDENTITY, WIDE)
    for i in tl.range(0, blocks):
        coming = tl.load(x + (here + i * (step * STEP)), own, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, column_minima(block, WIDE, PILE, DEPTH, LANES))
        block = coming
    least = lower(least, column_minima(block, WIDE, PILE, DEPTH, LANES))
    if SHIFTED:
        least = tl.reduce(tl.reshape(least, [DEPTH // VECTOR, VECTOR, LANES]), 0, lower)
        line = tl.arange(0, VECTOR)
        shift = ((x_first + (begin + line) * step) % VECTOR).to(tl.int32)
        least = tl.gather(least, tl.minimum(shift[:, None] + lane[None, :], LANES - 1), 1)
    least = lower(tl.reduce(least, 0, lower), edge)
    if not ALL:
        last, least = joined(least, partials, arrivals, tile, part, parts, there, IDENTITY, DEPTH, LANES)
        there = there & last
    place = out + slab * out_outer + (first + lane) * out_inner
    tl.store(place, least.to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=["whole", "parts"])
def flat_columns_kernel(
    x, out, partials, arrivals, n, inner, x_outer, out_outer, out_inner, whole, period, parts,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, VECTOR: tl.constexpr, PILE: tl.constexpr,
    BLOCK: tl.constexpr, PIECE: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Few columns without gaps, as pieces of memory: PILE blocks of whole vectors and of whole rows of the columns, so
    that a lane always meets the same column. The first and the last piece begin and end anywhere in a vector, and the
    last vector may reach past the memory: see columns_kernel.
    """
    await_last_launch()
    program = tl.program_id(0)
    slab = program // parts
    part = program % parts
    period = period * VECTOR
    start = slab.to(tl.int64) * x_outer
    length = tl.cast(n, tl.int64) * inner
    shift = (start % VECTOR).to(tl.int32)
    aligned = start // VECTOR * VECTOR
    lane = tl.arange(0, BLOCK)[None, :]
    place = tl.arange(0, PILE)[:, None] * period + lane
    # The first program takes the first piece, the last one the last.
    pieces = ((length + shift + period * PILE - 1) // (period * PILE)).to(tl.int32)
    at = tl.where(part == 0, 0, pieces - 1).to(tl.int64) * (period * PILE) + place
    end = (length + shift + VECTOR - 1) // VECTOR * VECTOR
    end = tl.minimum(end, tl.cast(whole, tl.int64) * VECTOR - aligned)
    either = (part == 0) | (part == parts - 1)
    block = tl.load(x + aligned + at, (lane < period) & (at < end) & either, other=IDENTITY)
    least = tl.reduce(tl.where((at >= shift) & (at < length + shift), block.to(WIDE), IDENTITY), 0, lower)
    block = tl.full([PILE, BLOCK], IDENTITY, WIDE).to(x.dtype.element_ty)
    for i in tl.range(part + 1, pieces - 1, parts):
        coming = tl.load(
            x + aligned + (tl.cast(i, tl.int64) * (period * PILE) + place), lane < period, other=IDENTITY,
            eviction_policy="evict_first",
        )  # fmt: skip
        least = lower(least, tl.reduce(block.to(WIDE), 0, lower))
        block = coming
    least = lower(least, tl.reduce(block.to(WIDE), 0, lower))
    folds = tl.full([PIECE, COLUMNS], IDENTITY, WIDE)
    column = tl.arange(0, PIECE * COLUMNS) % COLUMNS
    for first in range(0, period // inner, PIECE):
        fold = (first + tl.arange(0, PIECE * COLUMNS) // COLUMNS) * inner
        whose = fold + column + shift
        whose = tl.where(whose < period, whose, whose - period)
        places = tl.gather(least, tl.minimum(whose, BLOCK - 1), 0)
        places = tl.where((fold < period) & (column < inner), places, IDENTITY)
        folds = lower(folds, tl.reshape(places, [PIECE, COLUMNS]))
    column = tl.arange(0, COLUMNS)
    there = column < inner
    beyond = start + length - inner + column
    edge = tl.load(x + beyond, there & (beyond >= tl.cast(whole, tl.int64) * VECTOR), other=IDENTITY).to(WIDE)
    least = lower(tl.reduce(folds, 0, lower), edge)
    last, least = joined(least, partials, arrivals, slab, part, parts, there, IDENTITY, CHUNK, COLUMNS)
    goal = out + slab.to(tl.int64) * out_outer + column * out_inner
    tl.store(goal, least.to(out.dtype.element_ty), there & last)


# ---------------------------------------------------------------------------------------------------------------------
# Variants
# ---------------------------------------------------------------------------------------------------------------------


@register("triton", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """By rows where there are enough of them for all of the device, otherwise by parts of rows."""
    layout = rows_of(x, out)
    if layout.total > MAX_PROGRAMS:
        return in_halves(auto, x, out)
    device = current_device()
    knobs, multiprocessors = of(Knobs, device.index), device.multiprocessors
    if layout.across:
        columns = columns_of_rows(layout, x.dtype)
        strips = columns.strips(column_tile(columns, plain(x)).columns)
        idle = strips < knobs.across_percent / 100 * multiprocessors
        return (split if idle and layout.n > knobs.short_across else rows_deferred)(x, out)
    if layout.n * x.element_size() <= knobs.row_bytes:
        # Of rows a little longer than a block, with edges, a tile of half a block wastes less: float32 (16384, 4097)
        # takes 60.4 us on an H200 for 61.6, (3001, 5003) 16.5 for 18.7, (4099, 2053) 10.8 for 11.6, bfloat16
        # (1009, 9973) 7.4 for 8.0.
        long = layout.n * x.element_size() > (8192 if x.element_size() == 4 else 16384)
        ragged = long and x.element_size() in (2, 4) and edges_of(layout, x, out) > 0
        # Integers as the minimum takes them spill registers in rows.
        return (rows if x.dtype.is_floating_point and not ragged else rows_deferred)(x, out)
    return (rows_deferred if layout.total >= knobs.crowd * multiprocessors else split)(x, out)


@register("triton", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    x, out = plain(x), plain(out)
    layout = rows_of(x, out)
    edges = edges_of(layout, x, out)
    device = current_device()
    knobs = of(Knobs, device.index)
    ragged = ragged_tile_of(layout, x.dtype, edges)
    if ragged is not None:
        side, lanes, columns = ragged
        kinds = (layout.safe, wide_type(x.dtype), identity(x.dtype), edges)
        args = (x, out, *layout.layout, *kinds, side, columns // (lanes * edges), lanes)
        return bound("triton/min/rows", x, rows_ragged_kernel, triton.cdiv(layout.total, side), args, 1)
    if edges and layout.n <= knobs.flat_row and layout.inner == 1 and layout.x_outer == layout.n:
        side, sizes = flat_tiling(layout.n, 16 // x.element_size())
        args = (x, out, layout.total, layout.out_outer, layout.n, side, wide_type(x.dtype), identity(x.dtype), *sizes)
        programs = triton.cdiv(layout.total, side * sizes[0])
        return bound("triton/min/rows", x, rows_flat_kernel, programs, args, device.warps(FLAT_LANES))
    tile = row_tile(knobs, layout, x.dtype, edges)
    constants = (wide_type(x.dtype), identity(x.dtype), edges, fold_of(layout, x.dtype, tile.block))
    args = (x, out, *layout.layout, *constants, tile.rows, tile.block)
    programs = triton.cdiv(layout.total, tile.rows)
    return bound("triton/min/rows", x, rows_kernel, programs, args, device.warps(tile.threads))


def ragged_tile_of(rows: Rows, dtype: torch.dtype, edges: int) -> tuple[int, int, int] | None:
    """(rows, threads to a row, columns) of rows_ragged_kernel's tile, None where another kernel is faster.

    On an H200 in us, and as one piece or with edges of single elements: bfloat16 (1000003, 33) 20.8 (23.6),
    (499979, 61) 17.4 (25.8), (100003, 127) 8.4 (11.8); float32 32.6 (33.5), 30.6 (34.7), 13.1 (14.7).
    """
    if not edges or not dtype.is_floating_point or dtype.itemsize > 4:
        return None
    columns = triton.next_power_of_2(rows.n // edges * edges)
    if not 32 <= columns <= 128:
        return None
    if dtype.itemsize == 4:
        return 1024 // columns, 8, columns
    return (16, 16, columns) if columns == 128 else (32, 4, columns)


def flat_tiling(n: int, vector: int) -> tuple[int, tuple[int, ...]]:
    """(side, sizes): rows to a program, by the vector, and VECTOR, LANES, COLS, REST and FLAT of rows_flat_kernel."""
    columns = triton.next_power_of_2(n + 1) // 2
    rest = triton.next_power_of_2(n - columns) if n > columns else 0
    # Some lanes without a row, rather than half of the tile without memory.
    flat = triton.next_power_of_2(FLAT_LANES * n)
    if flat > 1.3 * FLAT_LANES * n:
        flat //= 2
    # The last row's columns must lie in the tile as well, those beyond its end included.
    side = min((flat - (columns + rest - n)) // (n * vector), FLAT_LANES // vector)
    return side, (vector, FLAT_LANES, columns, rest, flat)


@register("triton", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    x, out = plain(x), plain(out)
    layout = rows_of(x, out)
    device = current_device()
    knobs = of(Knobs, device.index)
    if layout.across:
        columns = columns_of_rows(layout, x.dtype)
        tile_of_columns = whole_column_tile(knobs, columns, x, device)
        return _columns("triton/min/rows_deferred", x, out, columns, tile_of_columns, 1, device)
    tile = block_tile(knobs, layout, x.dtype, TILE_ELEMENTS)
    if tile.block * x.element_size() == knobs.tile_bytes:
        # Half a tile, of which twice as many programs share an SM: 0.94 of what the device allows for bfloat16
        # (777, 50257), where a whole one reached 0.65.
        tile = tile._replace(block=tile.block // 2)
    constants = (wide_type(x.dtype), identity(x.dtype), edges_of(layout, x, out), fold_of(layout, x.dtype, tile.block))
    args = (x, out, *layout.layout, *constants, tile.rows, tile.block)
    programs = triton.cdiv(layout.total, tile.rows)
    return bound("triton/min/rows_deferred", x, rows_deferred_kernel, programs, args, device.warps(tile.threads))


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
    x, out = plain(x), plain(out)
    layout = rows_of(x, out)
    device = current_device()
    knobs = of(Knobs, device.index)
    if layout.across:
        return _split_columns(knobs, x, out, columns_of_rows(layout, x.dtype), device)
    tile = block_tile(knobs, layout, x.dtype, 1)
    vector = 16 // x.element_size()
    tiles = triton.cdiv(layout.total, tile.rows)
    # Programs for all of the device, and columns enough for each.
    wanted = knobs.crowd * device.multiprocessors // tiles
    most = min(MANY_PARTS, triton.cdiv(layout.n, knobs.span_elements))
    edges = edges_of(layout, x, out)
    inside = layout.n // edges * edges if edges else layout.n
    span = triton.cdiv(inside, max(1, min(wanted, most)) * vector) * vector
    parts = triton.cdiv(inside, span)
    merge = knobs.few_parts if parts <= knobs.few_parts else MANY_PARTS
    if x.element_size() == 2 and tile.block < span <= 2 * tile.block:
        # All of it under way at once: bfloat16 (61, 99991) takes 5.9 us on an H200 for 6.8, (127, 65537) 6.8 for 7.4.
        tile = tile._replace(block=2 * tile.block)
    partials = x.new_empty((layout.total, parts), dtype=wide_dtype(x.dtype))
    arrivals = x.new_zeros(tiles, dtype=torch.int32)
    fold = fold_of(layout, x.dtype, tile.block)
    args = (x, out, partials, arrivals, *layout.layout, parts, span // vector)
    constants = (wide_type(x.dtype), identity(x.dtype), edges, fold, vector, span <= tile.block)
    sizes = (tile.rows, tile.block, merge)
    warps = device.warps(tile.threads)
    return bound("triton/min/split", x, split_kernel, tiles * parts, args + constants + sizes, warps)


def _columns(
    implementation: str,
    x: torch.Tensor,
    out: torch.Tensor,
    columns: Columns,
    tile: ColumnTile,
    parts: int,
    device: Device,
) -> Launch:
    """Tiles of columns, in parts that the last program of each tile joins if there are several."""
    strips = columns.strips(tile.columns)
    span = triton.cdiv(triton.cdiv(columns.n, tile.depth), parts) * tile.depth
    parts = triton.cdiv(columns.n, span)
    partials: torch.Tensor | int = 0  # whole columns leave none, and a launch of x and out alone can be moved to others
    arrivals: torch.Tensor | int = 0
    if parts > 1:
        partials = x.new_empty((strips, parts, tile.lanes))
        arrivals = x.new_zeros(strips, dtype=torch.int32)
    reach = (columns.outer - 1) * columns.x_outer + (columns.n - 1) * columns.x_n + columns.inner
    place = (x, out, partials, arrivals, *columns.layout, reach // tile.vector, parts, span)
    kinds = (wide_type(x.dtype), identity(x.dtype), tile.vector)
    pile = min(tile.pile, triton.next_power_of_2(triton.cdiv(span, tile.depth)))
    args = (*place, *kinds, parts == 1, pile, tile.depth, tile.lanes)
    return bound(implementation, x, columns_kernel, strips * parts, args, device.warps(tile.threads))


def _split_columns(knobs: Knobs, x: torch.Tensor, out: torch.Tensor, columns: Columns, device: Device) -> Launch:
    flat = flat_tile(knobs, columns, x, device)
    if flat is not None:
        return _flat(x, out, columns, flat, device)
    tile = column_tile(columns, x)
    wanted = knobs.across_crowd * device.multiprocessors // columns.strips(tile.columns)
    parts = max(1, min(wanted, MANY_PARTS, triton.cdiv(columns.n, tile.depth)))
    return _columns("triton/min/split", x, out, columns, tile, parts, device)


def _flat(x: torch.Tensor, out: torch.Tensor, columns: Columns, tile: FlatTile, device: Device) -> Launch:
    width = triton.next_power_of_2(columns.inner)
    partials = x.new_empty((columns.outer, tile.parts, width))
    arrivals = x.new_zeros(columns.outer, dtype=torch.int32)
    vector = 16 // x.element_size()
    whole = ((columns.outer - 1) * columns.x_outer + columns.n * columns.inner) // vector
    layout = (columns.n, columns.inner, columns.x_outer, columns.out_outer, columns.out_inner)
    place = (x, out, partials, arrivals, *layout, whole, tile.period // vector, tile.parts)
    kinds = (wide_type(x.dtype), identity(x.dtype), vector)
    piece = max(1, min(triton.next_power_of_2(tile.period // columns.inner), 2 * tile.block // width))
    chunk = max(1, min(triton.next_power_of_2(tile.parts), tile.block // width))
    args = (*place, *kinds, tile.pile, tile.block, piece, width, chunk)
    programs = columns.outer * tile.parts
    return bound("triton/min/split", x, flat_columns_kernel, programs, args, device.warps(tile.threads))


def _by_atomics(implementation: str, kernel: object, x: torch.Tensor, out: torch.Tensor) -> Launch:
    x, out = plain(x), plain(out)
    # Atomics take 32 or 64 bits. What is narrower meets in a workspace, and a last step of the launch converts it.
    target = out if out.dtype.itemsize >= 4 else x.new_empty(out.shape, dtype=wide_dtype(x.dtype))
    rows = rows_of(x, target)
    device = current_device()
    knobs = of(Knobs, device.index)
    tile = block_tile(knobs, rows, x.dtype, knobs.atomic_rows)
    side, piece = tile.rows, tile.block
    groups = triton.cdiv(rows.total, side * knobs.atomic_tiles)
    blocks = min(triton.cdiv(rows.n, piece), triton.cdiv(knobs.crowd * device.multiprocessors, groups))
    pieces = triton.cdiv(rows.n, piece * blocks)
    blocks = triton.cdiv(rows.n, piece * pieces)
    constants = (wide_type(x.dtype), identity(x.dtype), edges_of(rows, x, out), fold_of(rows, x.dtype, piece))
    args = (x, target, *rows.layout, blocks, pieces, *constants, knobs.atomic_tiles, side, piece)
    lower_all = bound(implementation, x, kernel, groups * blocks, args, device.warps(tile.threads))
    nothing = identity(target.dtype)

    def launch() -> None:
        target.fill_(nothing)
        lower_all()
        if target is not out:
            out.copy_(target)

    return launch if target is out else owning(launch, target)
