import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import inside_of, places_of_ends, taken, whole
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.softmax.device_functions import exponential, state_with, subtracted
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def pairs_kernel(x, tops, totals, span, wide: torch.dtype):
    """A program has span elements of a block's rows, and leaves their pairs."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            top, total, lost = state_with(top, total, lost, x[o, c, i].to(wide))
        total = whole(total, lost)
        tops[o, part.begin, i] = top
        totals[o, part.begin, i] = total


@helion.kernel(static_shapes=False)
def merge_kernel(x, tops, totals, out, span, wide: torch.dtype):
    """Every program merges all pairs of its rows in the same order, so that all agree to the bit."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        every = tops[o, :, i]
        top = torch.amax(every, dim=1)
        # A part that is all -inf has the pair (-inf, 0), and so has a row, which becomes 0 / 0.
        shift = subtracted(top)
        inverse = 1.0 / (totals[o, :, i] * exponential(every - shift[:, None, :])).sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            tile = x[o, c, i].to(wide)
            out[o, c, i] = (exponential(tile - shift[:, None, :]) * inverse[:, None, :]).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_pairs_kernel(x, tops, totals, n, span, wide: torch.dtype, shift: hl.constexpr):
    """A program has span elements of the whole vectors of a row, the first one its ends too, and leaves their pair."""
    rows, parts, _ = tops.size()
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift, part.begin)
        top = hl.full([o], float("-inf"), dtype=wide)
        total = hl.zeros([o], dtype=wide)
        lost = hl.zeros([o], dtype=wide)
        top, total, lost = state_with(top, total, lost, taken(x, end, outside, float("-inf"), wide))
        for c in hl.tile(part.begin * span, part.begin * span + span):
            place = first + c.index[None, :]
            top, total, lost = state_with(top, total, lost, taken(x, place, place < stop, float("-inf"), wide))
        tops[o, part.begin, 0] = top
        totals[o, part.begin, 0] = whole(total, lost)


@helion.kernel(static_shapes=False)
def ragged_merge_kernel(x, tops, totals, out, n, span, wide: torch.dtype, shift: hl.constexpr):
    rows, parts, _ = tops.size()
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        every = tops[o, :, 0]
        top = torch.amax(every, dim=1, keepdim=True)
        # A part that is all -inf has the pair (-inf, 0), and so has a row, which becomes 0 / 0.
        inverse = 1.0 / (totals[o, :, 0] * exponential(every - subtracted(top))).sum(1, keepdim=True)
        end, outside = places_of_ends(row, n, first, stop, shift, part.begin)
        ends = taken(x, end, outside, float("-inf"), wide)
        hl.store(out, [end], (exponential(ends - subtracted(top)) * inverse).to(out.dtype), extra_mask=outside)
        for c in hl.tile(part.begin * span, part.begin * span + span):
            place = first + c.index[None, :]
            here = place < stop
            tile = taken(x, place, here, float("-inf"), wide)
            hl.store(out, [place], (exponential(tile - subtracted(top)) * inverse).to(out.dtype), extra_mask=here)


@register("helion", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave pairs (max, sum); a second launch merges and writes."""
    id, wide = "helion/softmax/split_two_launches", tiles.wide(x)
    rows, views = tiles.problem(x, out)
    tile, pair = tiles.block(rows, tiles.BLOCK_BYTES), (wide, wide)
    plan = tiles.cut_of(rows, tile, device_of(x))
    if tiles.uneven(rows):
        both, kinds = (ragged_pairs_kernel, ragged_merge_kernel), (wide, tiles.shift_of(rows))
        blocks, flat = (tile.outer, tile.cols // 2), tiles.flat(x, out)
        return in_two(id, both, flat, 1, rows, tile, plan, pair, kinds, blocks=blocks, before=(rows.n,))
    return in_two(id, (pairs_kernel, merge_kernel), views, 1, rows, tile, plan, pair, (wide,))
