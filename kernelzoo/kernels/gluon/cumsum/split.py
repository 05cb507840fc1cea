import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.cumsum.rows import row_cumsum
from kernelzoo.kernels.gluon.long_rows import locate_tile_and_part
from kernelzoo.kernels.gluon.row_tiles import choose_layout
from kernelzoo.kernels.gluon.sum.split import launch_sums
from kernelzoo.kernels.shared.jit import bind_grid, device_of, row_arguments, wide_type
from kernelzoo.kernels.shared.pack_tiles import SCANNED, plan_parts
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def cumsum_kernel(
    x, out, sums, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr, parts,
    span, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, PARTS: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    tile, part, begin, end = locate_tile_and_part(gl.cast(n, gl.int64) * MULTIPLE, parts, span)
    group, place, there = dev.row_coords(tile, rows, inner, False, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    other = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
    left = sums + ((group * inner + place) * parts)[:, None] + other
    total = gl.sum(gl.load(left, there[:, None] & (other < part), other=0), 1, keep_dims=True)
    row_cumsum(x_rows, x_n, out_rows, out_n, begin, end, there[:, None], total, ACC_DTYPE, BLOCK, LAYOUT)


@register("gluon", "cumsum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One launch sums each part of a row. A second adds up the sums of earlier parts, then scans as ``rows`` does."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    plan, id = plan_parts(x, rows), "gluon/cumsum/split"
    sums, first = launch_sums(id, x, out, rows, plan)
    many, block = plan.tile.rows, min(plan.tile.block, SCANNED // plan.tile.rows)
    warps = device_of(x).warps(many * block // 16)
    constants = (wide_type(sums.dtype), many, block, choose_layout(rows, many, block, warps), plan.padded_parts)
    args = (x, out, sums, *row_arguments(rows), plan.parts, plan.span, *constants)
    return chain_launches(first, bind_grid(id, cumsum_kernel, plan.programs, args, warps))
