"""After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867)."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import inside_of, places_of_ends, taken, whole
from kernelzoo.kernels.helion.launch import over_flat, over_views
from kernelzoo.kernels.helion.softmax.device_functions import exponential, state_with
from kernelzoo.launch import Launch
from kernelzoo.registry import register

LONG = 16384
"""Elements of a row along memory, from which on a block is twice as long, and so many threads more have it."""


@helion.kernel(static_shapes=False)
def online_kernel(x, out, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            top, total, lost = state_with(top, total, lost, x[o, c, i].to(wide))
        total = whole(total, lost)
        inverse = 1.0 / total
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            out[o, c, i] = (exponential(tile - top[:, None, :]) * inverse[:, None, :]).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_online_kernel(x, out, n, longest, rows, wide: torch.dtype, shift: hl.constexpr):
    """The same of rows that begin anywhere: whole vectors, of so many elements together, and the ends."""
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift)
        ends = taken(x, end, outside, float("-inf"), wide)
        top = hl.full([o], float("-inf"), dtype=wide)
        total = hl.zeros([o], dtype=wide)
        lost = hl.zeros([o], dtype=wide)
        top, total, lost = state_with(top, total, lost, ends)
        for c in hl.tile(longest):
            place = first + c.index[None, :]
            top, total, lost = state_with(top, total, lost, taken(x, place, place < stop, float("-inf"), wide))
        inverse = (1.0 / whole(total, lost))[:, None]
        hl.store(out, [end], (exponential(ends - top[:, None]) * inverse).to(out.dtype), extra_mask=outside)
        for c in hl.tile(longest):
            place = first + c.index[None, :]
            here = place < stop
            tile = taken(x, place, here, float("-inf"), wide)
            hl.store(out, [place], (exponential(tile - top[:, None]) * inverse).to(out.dtype), extra_mask=here)


@register("helion", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair of each row, then a pass that writes."""
    id, (rows, views) = "helion/softmax/online", tiles.problem(x, out)
    tile = tiles.block(rows, tiles.BLOCK_BYTES)
    if not rows.across and rows.n >= LONG:
        tile = tile._replace(cols=2 * tile.cols, warps=2 * tile.warps)
    if tiles.uneven(rows):
        kinds, numbers = (tiles.wide(x), tiles.shift_of(rows)), (rows.n, tiles.whole_of(rows), rows.total)
        blocks = tile.outer, tile.cols // 2, tile.cols // 2  # beside an element stands its place
        return over_flat(id, ragged_online_kernel, x, out, tile.warps, numbers, kinds, blocks)
    return over_views(id, online_kernel, views, tile, (tiles.wide(x),), tile.blocks(2))
