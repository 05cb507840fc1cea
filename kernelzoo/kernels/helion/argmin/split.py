import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.row_tiles import tile_and_parts
from kernelzoo.launch import Launch
from kernelzoo.layout import min_identity
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def parts_kernel(x, lows, places, span, highest: hl.constexpr, acc_dtype: torch.dtype):
    """Each program reads span elements of each row of a tile. highest: a value that no element exceeds."""
    outer, n, inner = x.size()
    parts = lows.size(1)
    block = hl.register_block_size(n)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = hl.full([o, block, i], highest, dtype=acc_dtype)
        place = hl.zeros([o, block, i], dtype=torch.int32)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n), block_size=block):
            tile = torch.where((c.index < n)[None, :, None], x[o, c, i].to(acc_dtype), highest)
            lower = ~(tile >= least) & (least == least)  # NaN is the least; of equal elements, the first wins
            step = c.begin - part.begin * span
            least, place = torch.where(lower, tile, least), torch.where(lower, step, place)
        low = torch.amin(least, dim=1)  # if a lane has NaN, this is NaN, and only such lanes are found
        found = (least == low[:, None, :]) | (least != least)
        lane = place.to(torch.int64) + (hl.arange(block)[None, :, None] + part.begin * span)
        lows[o, part.begin, i] = low
        places[o, part.begin, i] = torch.amin(torch.where(found, lane, n), dim=1)


@helion.kernel(static_shapes=False)
def merge_kernel(x, lows, places, out, span, highest: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        every = lows[o, :, i]
        low = torch.amin(every, dim=1)
        found = (every == low[:, None, :]) | (every != every)
        out[o, i] = torch.amin(torch.where(found, places[o, :, i], n), dim=1)


@register("helion", "argmin", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or strip of columns, and store minima and indices. A second launch compares them."""
    id, (rows, views) = "helion/argmin/split", tiles.rows_and_views(x, out)
    (tile, plan), acc_dtype = tile_and_parts(x, rows), tiles.acc_dtype(x)
    both, left, kinds = (parts_kernel, merge_kernel), (acc_dtype, torch.int64), (min_identity(x.dtype), acc_dtype)
    blocks = tile.cols, tile.outer, tile.inner
    return bind_pair(id, both, views, 1, rows, tile, plan, left, kinds, blocks=blocks, merge_blocks=(1, 1))
