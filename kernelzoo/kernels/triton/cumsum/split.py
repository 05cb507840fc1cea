import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, device_of, row_arguments, wide_type
from kernelzoo.kernels.shared.pack_tiles import SCANNED, plan_parts
from kernelzoo.kernels.triton.cumsum.rows import row_cumsum
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.long_rows import locate_rows_and_part
from kernelzoo.kernels.triton.sum.split import launch_sums
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def cumsum_kernel(
    x, out, sums, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    row, begin, end, _ = locate_rows_and_part(tl.cast(n, tl.int64) * MULTIPLE, parts, span, ROWS)
    x += row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out += row_start(row, inner, out_outer, out_inner, MULTIPLE)
    part = tl.arange(0, PARTS)[None, :]
    before = (row < rows) & (part < tl.program_id(0) % parts)
    total = tl.sum(tl.load(sums + (row * parts + part), before, other=0), 1, keep_dims=True)
    row_cumsum(x, x_n, out, out_n, begin, end, row < rows, total, ACC_DTYPE, BLOCK)


@register("triton", "cumsum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One launch sums each part of a row. A second adds up the sums of earlier parts, then scans as ``rows`` does."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    plan, id = plan_parts(x, rows), "triton/cumsum/split"
    sums, first = launch_sums(id, x, out, rows, plan)
    block = min(plan.tile.block, SCANNED // plan.tile.rows)
    constants = (wide_type(sums.dtype), plan.tile.rows, block, plan.padded_parts)
    warps = device_of(x).warps(plan.tile.rows * block // 16)
    args = (x, out, sums, *row_arguments(rows), plan.parts, plan.span, *constants)
    return chain_launches(first, bind_grid(id, cumsum_kernel, plan.programs, args, warps))
