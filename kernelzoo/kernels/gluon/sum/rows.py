import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.packs import locate_tile_rows, make_pack_launch_arguments, row_sum
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def sum_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr,
    LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = locate_tile_rows(gl.program_id(0), rows, inner, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None, None]
    result = row_sum(x_rows, x_n, 0, n, there[:, None, None], ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT)
    gl.store(out + dev.row_start(group, place, out_outer, out_inner, 1), result.to(out.dtype.element_ty), there)


@register("gluon", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each thread adds up its elements of a block, then the blocks, with compensation. Lanes are added up last."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    programs, warps, *tile = make_pack_launch_arguments(x, rows)
    args = (x, out, *row_arguments(rows), wide_type(torch.promote_types(x.dtype, out.dtype)), *tile)
    return bind_grid("gluon/sum/rows", sum_kernel, programs, args, warps)
