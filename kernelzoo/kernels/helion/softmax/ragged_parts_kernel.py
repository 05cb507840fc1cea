"""Several programs to a row that begins anywhere in vectors: parts of its whole vectors, the first one its ends too."""

from collections.abc import Sequence

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.softmax.words import exponential, pair_of, pair_with, subtracted
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.helion.words import inside_of, places_of_ends, taken
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import Rows


@helion.kernel(static_shapes=False)
def ragged_pairs_kernel(x, tops, totals, n, span, wide: torch.dtype, shift: hl.constexpr):
    """A program has span elements of the whole vectors of a row, the first one its ends too, and leaves their pair."""
    rows, parts, _ = tops.size()
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift, part.begin)
        top, total = pair_of(taken(x, end, outside, float("-inf"), wide))
        for c in hl.tile(part.begin * span, part.begin * span + span):
            place = first + c.index[None, :]
            top, total = pair_with(top, total, taken(x, place, place < stop, float("-inf"), wide))
        tops[o, part.begin, 0] = top.squeeze(1)
        totals[o, part.begin, 0] = total.squeeze(1)


@helion.kernel(static_shapes=False)
def ragged_merge_kernel(x, tops, totals, out, n, span, wide: torch.dtype, shift: hl.constexpr):
    """Every program merges all pairs of its rows in the same order, so that all agree to the bit."""
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


def launch_of_ragged_parts(
    id: str, x: torch.Tensor, out: torch.Tensor, pairs: Sequence[torch.Tensor], rows: Rows, tile: Tile, span: int
) -> Launch:
    """Both launches, one after the other. pairs: what the first leaves, maxima and sums."""
    flat, kinds = tiles.flat(x, out), (tiles.wide(x), tiles.shift_of(rows))
    first, last = (Example(one.dtype, "all") for one in flat)
    pair, far = Example(tiles.wide(x), "outer parts inner"), tiles.far(*flat, *pairs)
    blocks, order = (tile.outer, tile.cols // 2), (1, 0)
    leave = Program(ragged_pairs_kernel, (first, pair, pair), 2, kinds, blocks, order, tile.warps, far)
    write = Program(ragged_merge_kernel, (first, pair, pair, last), 2, kinds, blocks, order, tile.warps, far)
    return sequence(
        bound(id, leave, flat, (flat[0], *pairs), (rows.n, span)),
        bound(id, write, flat, (flat[0], *pairs, flat[1]), (rows.n, span)),
    )
