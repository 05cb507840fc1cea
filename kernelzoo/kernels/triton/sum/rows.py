import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.pack_tiles import pack_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.packs import row_sum
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def sum_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    result = row_sum(x, x_start, x_n, 0, n, row < rows, ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result.to(out.dtype.element_ty), row < rows)


@register("triton", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each thread adds up its elements of a block, then the blocks, with compensation. Lanes are added up last."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    tile = pack_tile(x, rows)
    wide = wide_type(torch.promote_types(x.dtype, out.dtype))
    args = (x, out, *row_arguments(rows), wide, *tile.constants)
    return bind_grid("triton/sum/rows", sum_kernel, tile.programs, args, tile.warps)
