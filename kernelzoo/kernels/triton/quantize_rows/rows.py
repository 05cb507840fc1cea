import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, float8_bits, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def quantize_kernel(
    x, values, scale, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    scale_outer, scale_inner, TOP: tl.constexpr, LEAST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    tile = tl.zeros([ROWS, BLOCK], tl.float32)
    most = tile.to(tl.int32)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), (row < rows) & (here < n), other=0).to(tl.float32)
        # Magnitudes sort as their bits without the sign. NaN is the largest.
        most = tl.maximum(most, tile.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    top = tl.max(most, 1, keep_dims=True).to(tl.float32, bitcast=True)
    by = tl.where(top < LEAST, 1, tl.div_rn(top, TOP))
    tl.store(scale + row_start(row, inner, scale_outer, scale_inner, 1), by, row < rows)
    inverse = tl.div_rn(1.0, by)  # exact if by is a power of two, so that ties stay ties
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = (row < rows) & (here < n)
        if not WHOLE:
            tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(tl.float32)
        tl.store(values + (out_start + here * out_n), float8_bits(tile * inverse), mask)


@register("triton", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """A row that fits in registers is read once. A longer row is read again, from cache, to be scaled."""
    values = values.view(torch.uint8)
    rows, (scales,) = layouts_of(x, values, scale)
    tile = register_tile(x, rows)
    constants = (TOP, LEAST, tile.rows, tile.block, tile.block >= rows.n)
    args = (x, values, scale, *row_arguments(rows), scales.outer, scales.inner, *constants)
    return bind_grid("triton/quantize_rows/rows", quantize_kernel, tile.programs, args, tile.warps, tensors=3)
