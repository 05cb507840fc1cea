import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.row_tiles import in_parts
from kernelzoo.launch import Launch
from kernelzoo.layout import identity
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def parts_kernel(x, lows, places, span, nothing: hl.constexpr, wide: torch.dtype):
    """A program has span elements of a block's rows. nothing: what no element is above."""
    outer, n, inner = x.size()
    parts = lows.size(1)
    block = hl.register_block_size(n)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = hl.full([o, block, i], nothing, dtype=wide)
        place = hl.zeros([o, block, i], dtype=torch.int32)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n), block_size=block):
            tile = torch.where((c.index < n)[None, :, None], x[o, c, i].to(wide), nothing)
            lower = ~(tile >= least) & (least == least)  # a NaN is less than all others, and the first stays
            step = c.begin - part.begin * span
            least, place = torch.where(lower, tile, least), torch.where(lower, step, place)
        low = torch.amin(least, dim=1)  # NaN if there is one, which equals nothing: then only NaN are found
        found = (least == low[:, None, :]) | (least != least)
        lane = place.to(torch.int64) + (hl.arange(block)[None, :, None] + part.begin * span)
        lows[o, part.begin, i] = low
        places[o, part.begin, i] = torch.amin(torch.where(found, lane, n), dim=1)


@helion.kernel(static_shapes=False)
def merge_kernel(x, lows, places, out, span, nothing: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        every = lows[o, :, i]
        low = torch.amin(every, dim=1)
        found = (every == low[:, None, :]) | (every != every)
        out[o, i] = torch.amin(torch.where(found, places[o, :, i], n), dim=1)


@register("helion", "argmin", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave minima and places, which a second launch compares."""
    id, (rows, views) = "helion/argmin/split", tiles.problem(x, out)
    (tile, plan), wide = in_parts(x, rows), tiles.wide(x)
    both, left, kinds = (parts_kernel, merge_kernel), (wide, torch.int64), (identity(x.dtype), wide)
    blocks = tile.cols, tile.outer, tile.inner
    return in_two(id, both, views, 1, rows, tile, plan, left, kinds, blocks=blocks, last=(1, 1))
