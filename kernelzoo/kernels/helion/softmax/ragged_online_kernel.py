"""Online, of rows that begin anywhere in vectors: whole vectors block by block, and the ends by elements."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.softmax.words import exponential, pair_of, pair_with
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.helion.words import inside_of, places_of_ends, taken
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


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
        inverse = 1.0 / total
        hl.store(out, [end], (exponential(ends - top) * inverse).to(out.dtype), extra_mask=outside)
        for c in hl.tile(whole):
            place = first + c.index[None, :]
            here = place < stop
            tile = taken(x, place, here, float("-inf"), wide)
            hl.store(out, [place], (exponential(tile - top) * inverse).to(out.dtype), extra_mask=here)


def launch_of_ragged_online(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch, a program to a row."""
    flat, kinds = tiles.flat(x, out), (tiles.wide(x), tiles.shift_of(rows))
    examples, far = tuple(Example(one.dtype, "all") for one in flat), tiles.far(*flat)
    blocks = tile.outer, tile.cols // 2, tile.cols // 2  # beside an element stands its place
    program = Program(ragged_online_kernel, examples, 3, kinds, blocks, (), tile.warps, far)
    return bound(id, program, flat, flat, (rows.n, tiles.whole_of(rows), rows.total))
