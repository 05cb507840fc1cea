"""Minima of rows. A short unaligned row, or a short column, is reduced by one thread or a few threads."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.shared.device_functions import end_of_vectors, min_or_nan
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, num_overreads, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, head_and_body, row_start
from kernelzoo.kernels.triton.min.lowest import choose_fold, fold_columns, load_edges, row_minima, running_minima
from kernelzoo.kernels.triton.min.tiles import Knobs, block_tile, whole_row_tile
from kernelzoo.kernels.triton.softmax.multi_row_lanes import WARPS, count_row_lanes
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, bool_as_uint8, cdiv, min_identity, next_power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of

VECTORS = (32, 128)
"""The shortest and the longest padded row, without edges, that ``rows_ragged_kernel`` takes."""

SHORT, SHORT_ACROSS, LEAST = 32, 48, 8
"""Rows shorter than SHORT and columns up to SHORT_ACROSS are read element by element, LEAST or more per thread."""


@triton.jit
def rows_deferred_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    start, columns, edges = load_edges(x, x_start, n, in_rows, ACC_DTYPE, IDENTITY, EDGES, ROWS)
    least = running_minima(
        x, start, x_n, n, cols, 0, end_of_vectors(n, EDGES), columns, in_rows, ACC_DTYPE, IDENTITY, ROWS, BLOCK
    )
    least = min_or_nan(row_minima(fold_columns(least, ROWS, BLOCK, FOLD)), row_minima(edges))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@triton.jit
def rows_ragged_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, safe,
    ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr,
    ROWS: tl.constexpr, PACKS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute minima of short unaligned rows, LANES threads per row. Threads read only complete aligned vectors.

    In the first and the last vector of a row, elements of other rows are masked. From row ``safe`` on, the last vector
    may reach past the memory. The edges of these rows are read one by one.
    """
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at_row = row[:, None, None]
    in_rows = at_row < rows
    x_start = row_start(at_row, inner, x_outer, x_inner, MULTIPLE)
    before, inside = head_and_body(x_start, n, EDGES)
    before, inside = before.to(tl.int32), inside.to(tl.int32)
    body = align(x_start, EDGES)
    after = n - before - inside
    cols = tl.arange(0, LANES * EDGES)[None, None, :]
    first = tl.arange(0, PACKS)[None, :, None] * (LANES * EDGES)
    mask = in_rows & (cols < inside - first)
    tile = tl.load(x + body + cols + first, mask, other=IDENTITY, eviction_policy="evict_first").to(ACC_DTYPE)
    side = tl.arange(0, 2)[None, :, None]
    lane = tl.arange(0, EDGES)[None, None, :]
    at = tl.where(side == 0, -EDGES, inside) + lane
    there = in_rows & (tl.where(side == 0, before, after) > 0)
    own = there & tl.where(side == 0, lane >= EDGES - before, lane < after)
    whole = there & ((side == 0) | (at_row < safe))
    edges = tl.load(x + body + at, whole, other=IDENTITY)
    if (tl.program_id(0).to(tl.int64) + 1) * ROWS > safe:
        edges = tl.where(whole, edges, tl.load(x + body + at, own & ~whole, other=IDENTITY))
    edges = tl.where(own, edges.to(ACC_DTYPE), IDENTITY)
    least = tl.reduce(tl.reduce(tile, 1, min_or_nan), 1, min_or_nan)
    least = min_or_nan(least, tl.reduce(tl.reduce(edges, 1, min_or_nan), 1, min_or_nan))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@triton.jit
def rows_lanes_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute minima of short rows. A lane has every LANES-th element of its row. N: n, as a constant."""
    await_last_launch()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)[None, :]
    # Rows past the end repeat the last row, so only the last load of each row needs a mask.
    start = row_start(tl.minimum(row, rows - 1), inner, x_outer, x_inner, MULTIPLE)[:, None] + lane.to(tl.int64) * x_n
    elements = []
    for first in tl.static_range(0, N, LANES):
        if first + LANES <= N:
            element = tl.load(x + (start + first * x_n))
        else:
            element = tl.load(x + (start + first * x_n), lane < N - first, other=IDENTITY)
        elements += [element.to(ACC_DTYPE)]
    least = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        least = min_or_nan(least, elements[i])
    least = tl.reduce(least, 1, min_or_nan).to(out.dtype.element_ty)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least, row < rows)


class ShortTile(NamedTuple):
    """A tile of short rows. threads: threads per row. columns: a row's padded length, or 0 to read single elements."""

    rows: int
    threads: int
    columns: int


def short_tile(rows: Rows, dtype: torch.dtype, device: Device) -> ShortTile | None:
    """Return the tile for short columns or short unaligned rows, or None for other rows."""
    if not dtype.is_floating_point:
        return None
    across, single = rows.as_columns, WARPS * device.warp_size
    if across is not None:
        return ShortTile(single, 1, 0) if rows.n <= SHORT_ACROSS and across.x_inner == 1 else None
    if rows.itemsize > 4 or rows.n % rows.vector_elements == 0:
        return None
    edges = edge_vector_size(rows)
    columns = next_power_of_two(rows.n // edges * edges) if edges else 0
    if VECTORS[0] <= columns <= VECTORS[1]:  # they fit in one warp
        if rows.itemsize == 4:
            return ShortTile(1024 // columns, 8, columns)
        return ShortTile(32, 4, columns) if columns < 128 else ShortTile(2048 // columns, 16, columns)
    lanes = count_row_lanes(rows.n, LEAST)
    return ShortTile(single // lanes, lanes, 0) if rows.n < SHORT else None


def make_short_row_launch(x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: ShortTile) -> Launch:
    id, programs, place = "triton/min/rows_deferred", cdiv(rows.total, tile.rows), row_arguments(rows)
    kinds = (wide_type(x.dtype), min_identity(x.dtype))
    if not tile.columns:
        args = (x, out, *place, *kinds, rows.n, tile.rows, tile.threads)
        return bind_grid(id, rows_lanes_kernel, programs, args, WARPS)
    vector = rows.vector_elements
    sizes = (tile.rows, tile.columns // (tile.threads * vector), tile.threads)
    return bind_grid(id, rows_ragged_kernel, programs, (x, out, *place, num_overreads(rows), *kinds, vector, *sizes), 1)


@register("triton", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes complete rows. It keeps a tile of running minima, and reduces it after the loop."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    rows, device = rows_of(x, out), device_of(x)
    short = short_tile(rows, x.dtype, device)
    if short is not None:
        return make_short_row_launch(x, out, rows, short)
    knobs = of(Knobs, device.index)
    edges = edge_vector_size(rows)
    tile = whole_row_tile(knobs, rows, x.dtype, device, edges)
    if tile is None:
        tile = block_tile(knobs, rows, x.dtype)
        if tile.block * x.element_size() == knobs.tile_bytes:
            # More programs fit on an SM. In half precision, a thread still has a vector of each block.
            tile = tile._replace(block=tile.block // (4 if x.element_size() == 2 else 2))
    constants = (wide_type(x.dtype), min_identity(x.dtype), edges, choose_fold(rows, x.dtype, tile.block))
    args = (x, out, *row_arguments(rows), *constants, tile.rows, tile.block)
    programs = cdiv(rows.total, tile.rows)
    return bind_grid("triton/min/rows_deferred", rows_deferred_kernel, programs, args, device.warps(tile.threads))
