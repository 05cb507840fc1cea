import torch
import triton
import triton.language as tl

from kernelzoo.device import MIB, Device
from kernelzoo.kernels.shared.device_functions import end_of_vectors, min_or_nan
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.min import columns, tiles
from kernelzoo.kernels.triton.min.lowest import choose_fold, fold_columns, load_edges, row_minima, running_minima
from kernelzoo.kernels.triton.min.tiles import MANY_PARTS, block_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import Columns, bool_as_uint8, cdiv, min_identity, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of

WIDE_TILE_BYTES = 72 * MIB
"""Bytes of all columns from which tiles two memory lines wide are faster than tiles one line wide."""


@form_knobs
class Knobs(columns.Knobs, tiles.Knobs):
    across_crowd: int = knob(
        2, among=(1, 2, 4), unit="programs per SM", why="that split makes of columns, each with 32 kB under way"
    )
    span_elements: int = knob(
        4096, among=(2048, 4096, 8192), unit="columns", why="of one program of a split row, at the least"
    )
    # The tile of results has two sizes, this and MANY_PARTS, so that row lengths share kernels.
    few_parts: int = knob(
        64, among=(32, 64, 128), unit="programs", why="to one row, whose results the last reads as the smaller tile"
    )


@triton.jit(do_not_specialize=["parts", "span"])
def split_kernel(
    x, out, partials, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr,
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
    start, columns, edges = load_edges(x, x_start, n, in_rows & (part == 0), ACC_DTYPE, IDENTITY, EDGES, ROWS)
    begin = part * span * VECTOR
    columns = tl.minimum(columns, begin + tl.cast(span, tl.int64) * VECTOR)
    if ONCE:
        here = begin + cols[None, :]
        mask = in_rows & (here < columns)
        least = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first").to(ACC_DTYPE)
    else:
        end = tl.minimum(begin + tl.cast(span, tl.int64) * VECTOR, end_of_vectors(n, EDGES))
        least = running_minima(x, start, x_n, n, cols, begin, end, columns, in_rows, ACC_DTYPE, IDENTITY, ROWS, BLOCK)
    least = min_or_nan(row_minima(fold_columns(least, ROWS, BLOCK, FOLD)), row_minima(edges))
    tl.store(partials + row * parts + part, least, row < rows)
    # The barrier orders the stores of all threads before the arrival, which releases them to the device. The last
    # program to arrive acquires the stores of all others.
    tl.debug_barrier()
    if tl.atomic_add(arrivals + tile, 1, sem="acq_rel", scope="gpu") == parts - 1:
        tl.debug_barrier()
        lanes = tl.arange(0, PARTS)[None, :]
        all_parts = partials + row[:, None] * parts + lanes
        known = tl.load(all_parts, in_rows & (lanes < parts), other=IDENTITY, cache_modifier=".cg")
        result = row_minima(known).to(out.dtype.element_ty)
        tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result, row < rows)
        tl.store(arrivals + tile, 0)  # for the next launch


def launch_columns(knobs: Knobs, device: Device, x: torch.Tensor, out: torch.Tensor, across: Columns) -> Launch:
    """Return the launch of ``split`` over strips of columns."""
    tile = columns.choose_column_tile(knobs, across)
    if across.outer * across.n * across.inner * across.itemsize >= WIDE_TILE_BYTES:
        tile = columns.choose_column_tile(knobs, across, line_bytes=2 * LINE_BYTES)
    wanted = knobs.across_crowd * device.multiprocessors // across.strip_count(tile.columns)
    parts = max(1, min(wanted, MANY_PARTS, cdiv(across.n, tile.depth)))
    return columns.make_column_launch("triton/min/split", x, out, across, tile, parts)


@register("triton", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns. The last to finish merges their minima: one launch.

    The launch resets its counts of finished programs to zero, so that it can be repeated.
    """
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.as_columns is not None:
        return launch_columns(knobs, device, x, out, rows.as_columns)
    tile = block_tile(knobs, rows, x.dtype, 1)
    vector = rows.vector_elements
    groups = cdiv(rows.total, tile.rows)
    # Enough programs to fill the device, and enough columns for each.
    wanted = knobs.crowd * device.multiprocessors // groups
    most = min(MANY_PARTS, cdiv(rows.n, knobs.span_elements))
    edges = edge_vector_size(rows)
    inside = rows.n // edges * edges if edges else rows.n
    span = cdiv(inside, max(1, min(wanted, most)) * vector) * vector
    parts = cdiv(inside, span)
    merge = knobs.few_parts if parts <= knobs.few_parts else MANY_PARTS
    if x.element_size() == 2 and tile.block < span <= 2 * tile.block:
        tile = tile._replace(block=2 * tile.block)  # one load has the whole span in flight
    partials = x.new_empty((rows.total, parts), dtype=wide_dtype(x.dtype))
    arrivals = x.new_zeros(groups, dtype=torch.int32)
    args = (x, out, partials, arrivals, *row_arguments(rows), parts, span // vector)
    fold = choose_fold(rows, x.dtype, tile.block)
    constants = (wide_type(x.dtype), min_identity(x.dtype), edges, fold, vector, span <= tile.block)
    sizes = (tile.rows, tile.block, merge)
    warps = device.warps(tile.threads)
    return bind_grid("triton/min/split", split_kernel, groups * parts, args + constants + sizes, warps)
