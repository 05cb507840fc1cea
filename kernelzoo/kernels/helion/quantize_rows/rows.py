"""A program takes the absolute maxima of several rows, block by block, and reads them again to scale."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import float8_bits
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def quantize_kernel(x, values, scale, most: hl.constexpr, least: hl.constexpr):
    """Quotients are taken in float64, once a row: in float32 a device's are not to nearest, and ties must stay ties."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.zeros([o, i], dtype=torch.float32)
        for c in hl.tile(n):
            top = torch.maximum(top, torch.amax(torch.abs(x[o, c, i].to(torch.float32)), dim=1))
        by = torch.where(top < least, 1.0, (top.to(torch.float64) / most).to(torch.float32))
        scale[o, i] = by
        inverse = (1.0 / by.to(torch.float64)).to(torch.float32)
        for c in hl.tile(n):
            values[o, c, i] = float8_bits(x[o, c, i].to(torch.float32) * inverse[:, None, :])


@register("helion", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """Maxima are taken block by block; then a row is read again, from cache, and scaled."""
    rows, (x_view, scale_view, values_view) = tiles.problem(x, values.view(torch.uint8), scale)
    tile, views = tile_of(x, rows), (x_view, values_view, scale_view)
    blocks = tile.outer, tile.inner, tile.cols, tile.cols
    return over_views("helion/quantize_rows/rows", quantize_kernel, views, tile, (TOP, LEAST), blocks)
