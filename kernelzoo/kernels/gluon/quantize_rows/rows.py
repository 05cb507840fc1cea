import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def quantize_kernel(
    x, values, scale, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    scale_outer, scale_inner, TOP: gl.constexpr, LEAST: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr,
    LAYOUT: gl.constexpr, WHOLE: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = values + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    most = gl.full([ROWS, BLOCK], 0, gl.int32, LAYOUT)
    tile = most.to(gl.float32)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there[:, None] & (here < n), other=0).to(gl.float32)
        # Magnitudes sort as their bits without the sign. NaN is the largest.
        most = gl.maximum(most, tile.to(gl.int32, bitcast=True) & 0x7FFFFFFF)
    top = gl.max(most, 1).to(gl.float32, bitcast=True)
    by = gl.where(top < LEAST, 1.0, gl.div_rn(top, gl.full([ROWS], TOP, gl.float32, gl.SliceLayout(1, LAYOUT))))
    gl.store(scale + dev.row_start(group, place, scale_outer, scale_inner, 1), by, there)
    # Exact if by is a power of two, so that ties stay ties.
    inverse = gl.div_rn(gl.full([ROWS], 1.0, gl.float32, gl.SliceLayout(1, LAYOUT)), by)[:, None]
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        if not WHOLE:
            tile = gl.load(x_rows + here * x_n, mask, other=0).to(gl.float32)
        gl.store(out_rows + here * out_n, dev.float8_bits(tile * inverse), mask)


@register("gluon", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """A row that fits in registers is read once. A longer row is read again, from cache, to be scaled."""
    values = values.view(torch.uint8)
    rows, (scales,) = layouts_of(x, values, scale)
    programs, warps, *tile = make_tile_launch_arguments(rows, register_tile(x, rows))
    args = (x, values, scale, *row_arguments(rows), scales.outer, scales.inner, TOP, LEAST, *tile, tile[1] >= rows.n)
    return bind_grid("gluon/quantize_rows/rows", quantize_kernel, programs, args, warps, tensors=3)
