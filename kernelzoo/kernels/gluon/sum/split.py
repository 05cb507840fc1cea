import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.long_rows import load_parts, locate_tile_and_part, result_offset
from kernelzoo.kernels.gluon.packs import locate_tile_rows, make_pack_constants, row_sum
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import PackPlan, plan_parts
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import register


@gluon.jit
def parts_kernel(
    x, out, sums, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr, parts,
    span, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr,
    LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    tile, part, begin, end = locate_tile_and_part(gl.cast(n, gl.int64) * MULTIPLE, parts, span)
    group, place, there = locate_tile_rows(tile, rows, inner, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None, None]
    result = row_sum(x_rows, x_n, begin, end, there[:, None, None], ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT)
    gl.store(sums + (group * inner + place) * parts + part, result, there)


@gluon.jit
def sum_of_parts_kernel(x, out, sums, parts, inner, out_outer, out_inner, PARTS: gl.constexpr):
    dev.await_last_launch()
    total = gl.sum(load_parts(sums, parts, 0, PARTS), 1)
    gl.store(out + result_offset(inner, out_outer, out_inner), total.to(out.dtype.element_ty))


def launch_sums(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, plan: PackPlan) -> tuple[torch.Tensor, Launch]:
    """Return (a workspace for the sums of parts, the launch that fills it)."""
    dtype = torch.promote_types(x.dtype, out.dtype)
    sums = x.new_empty((rows.total, plan.parts), dtype=wide_dtype(dtype))
    constants = (wide_type(dtype), *make_pack_constants(rows, plan.tile))
    args = (x, out, sums, *row_arguments(rows), plan.parts, plan.span, *constants)
    return sums, bind_grid(id, parts_kernel, plan.programs, args, plan.tile.warps)


@register("gluon", "sum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program sums part of a row as ``rows`` does. A second launch adds up the parts' sums in a tree."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    plan = plan_parts(x, rows)
    sums, first = launch_sums("gluon/sum/split", x, out, rows, plan)
    args = (x, out, sums, plan.parts, rows.inner, rows.out_outer, rows.out_inner, plan.padded_parts)
    return chain_launches(first, bind_grid("gluon/sum/split", sum_of_parts_kernel, rows.total, args, 1))
