"""A row that begins anywhere in vectors, held on chip: its whole vectors, and its ends by elements.

Results of rows get their axis back by ``[:, None]``: Helion makes a reshape of ``keepdim``, by whose layout, which two
tensors meet here, Triton 3.6 has every thread hold the whole row.
"""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.softmax.words import exponential, subtracted
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.helion.words import inside_of, places_of_ends, taken
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


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
        top = torch.maximum(torch.amax(tile, dim=1)[:, None], torch.amax(ends, dim=1)[:, None])
        tile = exponential(tile - subtracted(top))
        ends = exponential(ends - subtracted(top))
        inverse = 1.0 / (tile.sum(1)[:, None] + ends.sum(1)[:, None])
        hl.store(out, [place], (tile * inverse).to(out.dtype), extra_mask=here)
        hl.store(out, [end], (ends * inverse).to(out.dtype), extra_mask=outside)


def launch_of_ragged(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch, a program to a row."""
    flat = tiles.flat(x, out)
    kinds = tiles.wide(x), tiles.shift_of(rows), tiles.whole_of(rows)
    examples, far = tuple(Example(one.dtype, "all") for one in flat), tiles.far(*flat)
    program = Program(ragged_tile_kernel, examples, 2, kinds, (tile.outer,), (), tile.warps, far)
    return bound(id, program, flat, flat, (rows.n, rows.total))
