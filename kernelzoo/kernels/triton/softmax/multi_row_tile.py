import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, head_and_body, head_and_tail, row_start
from kernelzoo.kernels.triton.softmax.device_functions import READ, compute_softmax, softmax_with_edges
from kernelzoo.kernels.triton.softmax.tiles import Knobs, has_one_column_per_thread, row_tile, tile_warps
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def row_tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    SINGLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    if SINGLE:  # adds 0, which hides the stride's divisors: a thread then has whole rows, not vectors across rows
        x_n += tl.program_id(1)
        out_n += tl.program_id(1)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)[None, :]
    in_rows = (row < rows)[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    if EDGES:
        before, inside = head_and_body(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        edge, known = head_and_tail(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        edges = tl.load(x + (x_start + edge), known, other=float("-inf"))
        here = align(x_start, EDGES) + cols
        tile = tl.load(x + here, mask, other=float("-inf"), eviction_policy=READ)
        result, edges = softmax_with_edges(tile.to(ACC_DTYPE), edges.to(ACC_DTYPE), 1)
        here = align(out_start, EDGES) + cols
        tl.store(out + here, result.to(out.dtype.element_ty), mask)
        tl.store(out + (out_start + edge), edges.to(out.dtype.element_ty), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        tile = tl.load(x + x_start + here * x_n, mask, other=float("-inf"), eviction_policy=READ)
        tl.store(out + out_start + here * out_n, compute_softmax(tile.to(ACC_DTYPE), 1).to(out.dtype.element_ty), mask)


@register("triton", "softmax", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps a tile of consecutive short rows in the registers of one warp.

    If memory is contiguous across rows (a reduction over dim 0), the tile also makes the loads contiguous.
    """
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    edges = edge_vector_size(rows)
    tile = row_tile(knobs, device, rows, edges)
    if tile is None:
        words = f"no tile holds several rows of {rows.n} elements"
        raise UnsupportedProblemError("triton/softmax/multi_row_tile", words)
    side, columns = tile
    warps = tile_warps(knobs, device, rows, side * columns) if rows.is_strided else 1
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), edges, side, columns, has_one_column_per_thread(rows))
    return bind_grid("triton/softmax/multi_row_tile", row_tile_kernel, cdiv(rows.total, side), args, warps)
