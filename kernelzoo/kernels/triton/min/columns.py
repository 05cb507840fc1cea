from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.device_functions import min_or_nan
from kernelzoo.kernels.shared.jit import bind_grid, column_arguments, device_of, wide_type
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.kernels.triton.device_functions import await_last_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import Columns, bool_as_uint8, cdiv, min_identity, next_power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of

COLUMN_PILE = 8
"""The number of vectors that a thread loads at once, while it compares the previous ones."""


@form_knobs
class Knobs:
    short_across: int = knob(
        512, among=(256, 512, 1024), unit="elements", why="of columns that programs of 128 threads take whole"
    )
    long_across: int = knob(
        4096, among=(2048, 4096, 16384), unit="elements", why="of columns that programs of 512 threads take whole"
    )
    element_bytes: int = knob(
        2**23,
        among=(0, 2**21, 2**23),
        unit="bytes",
        why="of columns at a width that no vector divides, up to which elements arrive sooner than shifted vectors",
    )


@triton.jit
def join_parts(
    least, partials, arrivals, tile, part, parts, in_columns,
    IDENTITY: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Store a part's minima. Return (whether it is the tile's last part to finish, if so the minima of all parts)."""
    column = tl.arange(0, COLUMNS)
    all_parts = partials + tile.to(tl.int64) * parts * COLUMNS + column
    tl.store(all_parts + part * COLUMNS, least.to(partials.dtype.element_ty), in_columns)
    # The barrier orders the stores of all threads before the arrival, which releases them to the device. The last
    # program to arrive acquires the stores of all others.
    tl.debug_barrier()
    last = tl.atomic_add(arrivals + tile, 1, sem="acq_rel", scope="gpu") == parts - 1
    if last:
        tl.debug_barrier()
        running = tl.full([CHUNK, COLUMNS], IDENTITY, least.dtype)
        for first in range(0, parts, CHUNK):
            peer = first + tl.arange(0, CHUNK)[:, None]
            known = (peer < parts) & in_columns[None, :]
            found = tl.load(all_parts[None, :] + peer * COLUMNS, known, other=IDENTITY, cache_modifier=".cg")
            running = min_or_nan(running, found.to(least.dtype))
        least = tl.reduce(running, 0, min_or_nan)
        tl.store(arrivals + tile, 0)  # for the next launch
    return last, least


@triton.jit
def column_minima(tile, ACC_DTYPE: tl.constexpr, PILE: tl.constexpr, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """Return elementwise minima over a tile's PILE blocks. All blocks have one layout, so threads exchange nothing."""
    return tl.reduce(tl.reshape(tile.to(ACC_DTYPE), [PILE, DEPTH, LANES]), 0, min_or_nan)


@triton.jit(do_not_specialize=["whole", "parts", "span"])
def columns_kernel(
    x, out, partials, arrivals, outer, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, whole, parts, span, ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, VECTOR: tl.constexpr,
    ALL: tl.constexpr, PILE: tl.constexpr, DEPTH: tl.constexpr, LANES: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Compute minima of ``span`` elements of up to LANES adjacent columns. PILE blocks of DEPTH lines load at once.

    A line has one element of each column. A line that starts inside a vector is read from that vector's begin on. Its
    elements are then in later lanes. Lines DEPTH apart start at the same offset in a vector, so a lane stays in one
    column. At the end, minima are shifted to their columns' lanes. Elements after the first ``whole`` vectors are read
    one by one, since the memory's last vector may be incomplete.
    """
    await_last_launch()
    SHIFTED: tl.constexpr = MULTIPLE % VECTOR != 0
    TILE: tl.constexpr = LANES - VECTOR if SHIFTED else LANES
    STEP: tl.constexpr = PILE * DEPTH
    inner = tl.cast(inner, tl.int64) * MULTIPLE
    step = tl.cast(x_n, tl.int64) * MULTIPLE
    strips = ((inner + TILE - 1) // TILE).to(tl.int32)  # there are at least so many programs
    program = tl.program_id(0)
    tile = program // parts
    part = program % parts
    slab = (tile // strips).to(tl.int64)
    first = (tile % strips).to(tl.int64) * TILE
    depth = tl.arange(0, STEP)
    lane = tl.arange(0, LANES)
    begin = part.to(tl.int64) * span
    rows = tl.minimum(n - begin, span)
    x_first = slab * x_outer * MULTIPLE + first * x_inner
    start = x_first + (begin + depth) * step
    there = first + lane < inner
    own = there[None, :]
    edge = tl.full([LANES], IDENTITY, ACC_DTYPE)
    if SHIFTED:
        shift = (start % VECTOR).to(tl.int32)
        start = start // VECTOR * VECTOR
        width = tl.minimum(inner - first, TILE).to(tl.int32)
        there = lane < width
        own = lane[None, :] < ((shift + width + VECTOR - 1) // VECTOR * VECTOR)[:, None]
        end = x_first + (n - 1) * step + lane
        edge = tl.load(x + end, there & (end >= tl.cast(whole, tl.int64) * VECTOR), other=IDENTITY).to(ACC_DTYPE)
    here = start[:, None] + (lane * x_inner)[None, :]
    blocks = (rows - 1) // STEP  # and one more, which may be incomplete
    last_here = here + blocks * (step * STEP)
    last_own = own & (depth < (rows - blocks * STEP).to(tl.int32))[:, None]
    if SHIFTED:
        last_own = last_own & (last_here < tl.cast(whole, tl.int64) * VECTOR)
    block = tl.load(x + last_here, last_own, other=IDENTITY, eviction_policy="evict_first")
    least = tl.full([DEPTH, LANES], IDENTITY, ACC_DTYPE)
    for i in tl.range(0, blocks):
        coming = tl.load(x + (here + i * (step * STEP)), own, other=IDENTITY, eviction_policy="evict_first")
        least = min_or_nan(least, column_minima(block, ACC_DTYPE, PILE, DEPTH, LANES))
        block = coming
    least = min_or_nan(least, column_minima(block, ACC_DTYPE, PILE, DEPTH, LANES))
    if SHIFTED:
        least = tl.reduce(tl.reshape(least, [DEPTH // VECTOR, VECTOR, LANES]), 0, min_or_nan)
        line = tl.arange(0, VECTOR)
        shift = ((x_first + (begin + line) * step) % VECTOR).to(tl.int32)
        least = tl.gather(least, tl.minimum(shift[:, None] + lane[None, :], LANES - 1), 1)
    least = min_or_nan(tl.reduce(least, 0, min_or_nan), edge)
    if not ALL:
        last, least = join_parts(least, partials, arrivals, tile, part, parts, there, IDENTITY, CHUNK, LANES)
        there = there & last
    place = out + slab * out_outer + (first + lane) * out_inner
    tl.store(place, least.to(out.dtype.element_ty), there)


class ColumnTile(NamedTuple):
    """A tile of columns. vector: elements per load. pile: blocks that are loaded at once. depth: elements per column in
    a block. lanes: columns that are loaded. columns: columns whose minima are written."""

    vector: int
    pile: int
    depth: int
    lanes: int
    columns: int
    threads: int


def choose_column_tile(
    knobs: Knobs, columns: Columns, threads: int = 256, line_bytes: int = LINE_BYTES, loads: int = COLUMN_PILE
) -> ColumnTile:
    """Return a tile for so many threads. Its lines have ``line_bytes``. Each thread starts ``loads`` loads at once."""
    itemsize = columns.itemsize
    vector, bytes = 16 // itemsize, columns.outer * columns.n * columns.inner * itemsize
    # If lines are shorter than a vector, several of them may end in the memory's last, incomplete vector.
    if columns.x_inner != 1 or columns.x_phase or columns.x_n < vector:
        vector = 1
    elif columns.stride_gcd % vector and bytes <= knobs.element_bytes:
        vector, loads = 1, loads * vector
    shifted = columns.stride_gcd % vector != 0
    lanes = min(line_bytes // itemsize, next_power_of_two(columns.inner + (vector if shifted else 0)))
    lanes = max(lanes, 2 * vector)
    # One line per offset in a vector at which it may start. For wide lines of bytes, a thread then has several loads.
    depth = max(vector if shifted else 1, threads * vector // lanes)
    pile = max(1, loads * threads * vector // (depth * lanes))
    return ColumnTile(vector, pile, depth, lanes, lanes - vector if shifted else lanes, threads)


def choose_whole_column_tile(columns: Columns, device: Device) -> ColumnTile:
    """Return the tile of a program that takes complete columns."""
    knobs = of(Knobs, device.index)
    # The widest tile that gives every multiprocessor a program.
    for line in (4 * LINE_BYTES, 2 * LINE_BYTES, LINE_BYTES):
        tile = choose_column_tile(knobs, columns, line_bytes=line)
        if columns.strip_count(tile.columns) >= device.multiprocessors:
            break
    shifted = tile.columns < tile.lanes
    if columns.n <= knobs.short_across:
        # Each shifted line wastes one vector, which is a smaller part of a wider line.
        return choose_column_tile(knobs, columns, 128, 2 * LINE_BYTES if shifted else LINE_BYTES)
    if columns.n < knobs.long_across or shifted:
        return tile
    # A thread loads half as much if two programs must share a multiprocessor's registers.
    alone = columns.strip_count(tile.columns) <= device.multiprocessors
    return choose_column_tile(knobs, columns, 512, line, loads=COLUMN_PILE if alone else COLUMN_PILE // 2)


def make_column_launch(
    id: str, x: torch.Tensor, out: torch.Tensor, columns: Columns, tile: ColumnTile, parts: int
) -> Launch:
    """Return the launch over tiles of columns. If tiles have several parts, the last to finish merges the minima."""
    strips = columns.strip_count(tile.columns)
    span = cdiv(cdiv(columns.n, tile.depth), parts) * tile.depth
    parts = cdiv(columns.n, span)
    partials: torch.Tensor | int = 0  # without workspaces, a launch can be moved to other tensors
    arrivals: torch.Tensor | int = 0
    if parts > 1:
        partials = x.new_empty((strips, parts, tile.lanes))
        arrivals = x.new_zeros(strips, dtype=torch.int32)
    reach = (columns.outer - 1) * columns.x_outer + (columns.n - 1) * columns.x_n + columns.inner
    place = (x, out, partials, arrivals, *column_arguments(columns), reach // tile.vector, parts, span)
    kinds = (wide_type(x.dtype), min_identity(x.dtype), tile.vector)
    pile = min(tile.pile, next_power_of_two(cdiv(span, tile.depth)))
    # The last program loads as many parts at once as a thread has registers for.
    chunk = min(next_power_of_two(parts), COLUMN_PILE // 2 * tile.threads * 16 // (columns.itemsize * tile.lanes))
    args = (*place, *kinds, parts == 1, pile, tile.depth, tile.lanes, chunk)
    return bind_grid(id, columns_kernel, strips * parts, args, device_of(x).warps(tile.threads))


@register("triton", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes a strip of neighbouring columns, and reads it from top to bottom."""
    id = "triton/min/columns"
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    columns = rows_of(x, out).as_columns
    if columns is None:
        raise UnsupportedProblemError(id, "it takes columns, and the rows of this problem don't lie across memory")
    return make_column_launch(id, x, out, columns, choose_whole_column_tile(columns, device_of(x)), 1)
