import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.device_functions import online_state
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, next_power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of


@form_knobs
class Knobs:
    online_bytes: int = knob(  # 16 float32 elements to each of 256 threads, with a maximum and a sum for each
        16384, among=(8192, 16384, 32768), unit="bytes", why="of a block of the running state"
    )


@triton.jit
def online_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    inside, longest, edge, known = locate_body_and_edges(x_start, n, in_rows, EDGES)
    edges = tl.load(x + (x_start + edge), known, other=float("-inf")).to(ACC_DTYPE) if EDGES else x_start
    x_body = align(x_start, EDGES)
    out_body = align(out_start, EDGES)
    row_top, row_total, edges = online_state(
        x, x_body, x_n, cols, in_rows, inside, longest, edges, LOWEST, ACC_DTYPE, EDGES, ROWS, BLOCK
    )
    inverse = 1.0 / row_total
    if EDGES:
        tl.store(out + (out_start + edge), (edges * inverse).to(out.dtype.element_ty), known)
    blocks = tl.cdiv(longest, BLOCK)
    for i in range(blocks):
        here = (blocks - 1 - i) * BLOCK + cols  # backwards: what was read last is likely still in a cache
        mask = in_rows & (here < inside)
        tile = tl.load(x + (x_body + here * x_n), mask, other=float("-inf"))
        result = exponential(tile.to(ACC_DTYPE) - row_top) * inverse
        tl.store(out + (out_body + here * out_n), result.to(out.dtype.element_ty), mask)


def column_tile(device: Device, rows: Rows, least: int = 0) -> tuple[int, int, int]:
    """Return (ROWS, BLOCK, warps) of a tile: a block of one row, or of one memory line of columns.

    least: the fewest elements per tile. To reach it, a tile can have up to 16 short rows.
    """
    elements = of(Knobs, device.index).online_bytes // rows.accumulator_bytes
    side = LINE_BYTES // rows.itemsize if rows.is_strided else 1
    block = elements // side if rows.is_strided else min(elements, next_power_of_two(rows.n))
    side = max(side, min(16, least // block))
    return side, block, tiles.tile_warps(of(tiles.Knobs, device.index), device, rows, side * block)


@register("triton", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over column blocks keeps a running (max, sum) state in each lane. A second pass reads again and writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows = rows_of(x, out)
    side, block, warps = column_tile(device_of(x), rows)
    lowest = torch.finfo(wide_dtype(x.dtype)).min
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), lowest, edge_vector_size(rows), side, block)
    if rows.itemsize == 8 and not rows.is_strided:
        warps *= 2  # exponentials of float64 are slow, so more threads are faster
    return bind_grid("triton/softmax/online", online_kernel, cdiv(rows.total, side), args, warps)
