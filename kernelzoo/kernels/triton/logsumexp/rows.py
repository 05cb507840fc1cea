import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import pack_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.packs import max_and_sum
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def logsumexp_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, LOWEST: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    top, total = max_and_sum(x, x_start, x_n, 0, n, row < rows, LOWEST, -LOWEST, ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR)
    result = top + tl.log(total)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result.to(out.dtype.element_ty), row < rows)


@register("triton", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass keeps a running (max, sum) state in each thread. Threads merge their states after the loop."""
    rows = rows_of(x, out)
    tile = pack_tile(x, rows)
    lowest = torch.finfo(wide_dtype(x.dtype)).min
    args = (x, out, *row_arguments(rows), lowest, wide_type(x.dtype), *tile.constants)
    return bind_grid("triton/logsumexp/rows", logsumexp_kernel, tile.programs, args, tile.warps)
