import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import float8_bits
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile, whole_row_tile_or_none
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def scale_and_inverse(top, most: hl.constexpr, least: hl.constexpr):
    """Return the rows' (scale, 1 / scale), correctly rounded, unlike plain float32 division, so that ties stay ties."""
    by = torch.where(top < least, 1.0, hl.inline_triton("tl.div_rn({0}, {1})", (top, most), top))
    return by, hl.inline_triton("tl.div_rn(1.0, {0})", (by,), by)


@helion.kernel(static_shapes=False)
def held_kernel(x, values, scale, most: hl.constexpr, least: hl.constexpr, hardware: hl.constexpr):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(torch.float32)
        by, inverse = scale_and_inverse(torch.amax(torch.abs(tile), dim=1), most, least)
        scale[o, i] = by
        values[o, :, i] = float8_bits(tile * inverse[:, None, :], hardware)


@helion.kernel(static_shapes=False)
def quantize_kernel(x, values, scale, most: hl.constexpr, least: hl.constexpr, hardware: hl.constexpr):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.zeros([o, i], dtype=torch.float32)
        for c in hl.tile(n):
            top = torch.maximum(top, torch.amax(torch.abs(x[o, c, i].to(torch.float32)), dim=1))
        by, inverse = scale_and_inverse(top, most, least)
        scale[o, i] = by
        for c in hl.tile(n):
            values[o, c, i] = float8_bits(x[o, c, i].to(torch.float32) * inverse[:, None, :], hardware)


@register("helion", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """A row that fits on chip is read once. A longer row is read again, from cache, to be scaled."""
    id = "helion/quantize_rows/rows"
    rows, (x_view, scale_view, values_view) = tiles.rows_and_views(x, values.view(torch.uint8), scale)
    views, kinds = (x_view, values_view, scale_view), (TOP, LEAST, device_of(x).capability >= 89)
    if tile := whole_row_tile_or_none(id, x, rows, 1):
        return bind_tiled(id, held_kernel, views, tile, kinds, tile.block_sizes(0))
    tile = streaming_tile(x, rows)
    return bind_tiled(id, quantize_kernel, views, tile, kinds, tile.block_sizes(2))
