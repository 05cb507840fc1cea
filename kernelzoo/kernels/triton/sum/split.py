import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import PackPlan, plan_parts
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.long_rows import load_parts, locate_rows_and_part, row_to_merge
from kernelzoo.kernels.triton.packs import row_sum
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import register


@triton.jit
def parts_kernel(
    x, out, sums, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, parts,
    span, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    row, begin, end, place = locate_rows_and_part(tl.cast(n, tl.int64) * MULTIPLE, parts, span, ROWS)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    result = row_sum(x, x_start, x_n, begin, end, row < rows, ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR)
    tl.store(sums + place, result, row < rows)


@triton.jit
def sum_of_parts_kernel(x, out, sums, parts, inner, out_outer, out_inner, PARTS: tl.constexpr):
    await_last_launch()
    row = row_to_merge()
    total = tl.sum(load_parts(sums, row, parts, 0, PARTS), 1, keep_dims=True)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), total.to(out.dtype.element_ty))


def launch_sums(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, plan: PackPlan) -> tuple[torch.Tensor, Launch]:
    """Return (a workspace for the sums of parts, the launch that fills it)."""
    dtype = torch.promote_types(x.dtype, out.dtype)
    sums = x.new_empty((rows.total, plan.parts), dtype=wide_dtype(dtype))
    args = (x, out, sums, *row_arguments(rows), plan.parts, plan.span, wide_type(dtype), *plan.tile.constants)
    return sums, bind_grid(id, parts_kernel, plan.programs, args, plan.tile.warps)


@register("triton", "sum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program sums part of a row as ``rows`` does. A second launch adds up the parts' sums in a tree."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    plan = plan_parts(x, rows)
    sums, first = launch_sums("triton/sum/split", x, out, rows, plan)
    args = (x, out, sums, plan.parts, rows.inner, rows.out_outer, rows.out_inner, plan.padded_parts)
    return chain_launches(first, bind_grid("triton/sum/split", sum_of_parts_kernel, rows.total, args, 1))
