"""Rows that begin anywhere in vectors: the kernels of fused, online and split_two_launches for those.

The whole vectors inside a row are read and written as such, and what is left of it at its ends by elements.
"""

from collections.abc import Sequence

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.helion.words import inside_of, places_of_ends, taken
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import Rows


def subtracted(top):
    """What is subtracted from elements before their exponentials: of elements that are all -inf nothing, so that no
    difference is -inf - -inf."""
    return torch.where(top == float("-inf"), 0.0, top)


def pair_of(tile):
    """The pair (maximum, sum) of a block of rows."""
    top = torch.amax(tile, dim=1, keepdim=True)
    return top, torch.exp(tile - subtracted(top)).sum(1, keepdim=True)


def pair_with(top, total, tile):
    """The pair of rows, once a block is taken in."""
    higher = torch.maximum(top, torch.amax(tile, dim=1, keepdim=True))
    less = subtracted(higher)
    return higher, total * torch.exp(top - less) + torch.exp(tile - less).sum(1, keepdim=True)


@helion.kernel(static_shapes=False)
def ragged_tile_kernel(x, out, n, rows, wide: torch.dtype, shift: hl.constexpr, whole: hl.constexpr):
    """One read, one write. whole: the power of two of elements that holds all whole vectors of a row."""
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift)
        place = first + hl.arange(whole)[None, :]
        here = place < stop
        tile = taken(x, place, here, float("-inf"), wide)
        ends = taken(x, end, outside, float("-inf"), wide)
        top = torch.maximum(torch.amax(tile, dim=1, keepdim=True), torch.amax(ends, dim=1, keepdim=True))
        tile = torch.exp(tile - subtracted(top))
        ends = torch.exp(ends - subtracted(top))
        total = tile.sum(1, keepdim=True) + ends.sum(1, keepdim=True)
        hl.store(out, [place], (tile / total).to(out.dtype), extra_mask=here)
        hl.store(out, [end], (ends / total).to(out.dtype), extra_mask=outside)


@helion.kernel(static_shapes=False)
def ragged_online_kernel(x, out, n, whole, rows, wide: torch.dtype, shift: hl.constexpr):
    """whole: elements that hold all whole vectors of a row."""
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift)
        ends = taken(x, end, outside, float("-inf"), wide)
        top, total = pair_of(ends)
        for c in hl.tile(whole):
            place = first + c.index[None, :]
            top, total = pair_with(top, total, taken(x, place, place < stop, float("-inf"), wide))
        hl.store(out, [end], (torch.exp(ends - top) / total).to(out.dtype), extra_mask=outside)
        for c in hl.tile(whole):
            place = first + c.index[None, :]
            here = place < stop
            tile = taken(x, place, here, float("-inf"), wide)
            hl.store(out, [place], (torch.exp(tile - top) / total).to(out.dtype), extra_mask=here)


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
        total = (totals[o, :, 0] * torch.exp(every - subtracted(top))).sum(1, keepdim=True)
        end, outside = places_of_ends(row, n, first, stop, shift, part.begin)
        ends = taken(x, end, outside, float("-inf"), wide)
        hl.store(out, [end], (torch.exp(ends - subtracted(top)) / total).to(out.dtype), extra_mask=outside)
        for c in hl.tile(part.begin * span, part.begin * span + span):
            place = first + c.index[None, :]
            here = place < stop
            tile = taken(x, place, here, float("-inf"), wide)
            hl.store(out, [place], (torch.exp(tile - subtracted(top)) / total).to(out.dtype), extra_mask=here)


def launch_of_ragged(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch of the first, over tiles of whole rows."""
    flat = tiles.flat(x, out)
    kinds = tiles.wide(x), tiles.shift_of(rows), tiles.whole_of(rows)
    examples, far = tuple(Example(one.dtype, "all") for one in flat), tiles.far(*flat)
    program = Program(ragged_tile_kernel, examples, 2, kinds, (tile.outer,), (), tile.warps, far)
    return bound(id, program, flat, flat, (rows.n, rows.total))


def launch_of_ragged_online(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch of the second."""
    flat, kinds = tiles.flat(x, out), (tiles.wide(x), tiles.shift_of(rows))
    examples, far = tuple(Example(one.dtype, "all") for one in flat), tiles.far(*flat)
    blocks = tile.outer, tile.cols // 2, tile.cols // 2  # beside an element stands its place
    program = Program(ragged_online_kernel, examples, 3, kinds, blocks, (), tile.warps, far)
    return bound(id, program, flat, flat, (rows.n, tiles.whole_of(rows), rows.total))


def launch_of_ragged_parts(
    id: str, x: torch.Tensor, out: torch.Tensor, pairs: Sequence[torch.Tensor], rows: Rows, tile: Tile, span: int
) -> Launch:
    """The launches of the others, one after the other. pairs: what the first leaves, maxima and sums."""
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
