"""Rows that begin anywhere in vectors: the kernels of rows, rows_deferred_block and split_two_launches for those.

The whole vectors inside a row are read block by block, and what is left of it at its ends by elements.
"""

from typing import Any

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.min.tiles import identity
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.helion.words import inside_of, places_of_ends, taken
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


@helion.kernel(static_shapes=False)
def ragged_rows_kernel(x, out, n, whole, nothing: hl.constexpr, wide: torch.dtype, shift: hl.constexpr):
    """Each block is reduced to a scalar before it is combined. whole: elements that hold all whole vectors of a row."""
    rows = out.size(0)
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift)
        least = torch.amin(taken(x, end, outside, nothing, wide), dim=1)
        for c in hl.tile(whole):
            place = first + c.index[None, :]
            block = taken(x, place, place < stop, nothing, wide)
            least = torch.minimum(least, torch.amin(block, dim=1))
        out[o] = least.to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_deferred_kernel(x, out, n, whole, nothing: hl.constexpr, wide: torch.dtype, shift: hl.constexpr):
    """The running minimum stays a tile until the row has ended. whole: elements that hold all whole vectors of a
    row."""
    rows = out.size(0)
    block = hl.register_block_size(whole)
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        running = hl.full([o, block], nothing, dtype=wide)
        for c in hl.tile(whole, block_size=block):
            place = first + c.index[None, :]
            running = torch.minimum(running, taken(x, place, place < stop, nothing, wide))
        end, outside = places_of_ends(row, n, first, stop, shift)
        least = torch.amin(taken(x, end, outside, nothing, wide), dim=1)
        out[o] = torch.minimum(least, torch.amin(running, dim=1)).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_parts_kernel(x, partials, n, span, nothing: hl.constexpr, wide: torch.dtype, shift: hl.constexpr):
    """A program has span elements of the whole vectors of a row, and its ends, which change nothing by being taken
    again."""
    rows, parts, _ = partials.size()
    block = hl.register_block_size(span)
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        running = hl.full([o, block], nothing, dtype=wide)
        for c in hl.tile(part.begin * span, part.begin * span + span, block_size=block):
            place = first + c.index[None, :]
            running = torch.minimum(running, taken(x, place, place < stop, nothing, wide))
        end, outside = places_of_ends(row, n, first, stop, shift)
        least = torch.amin(taken(x, end, outside, nothing, wide), dim=1)
        partials[o, part.begin, 0] = torch.minimum(least, torch.amin(running, dim=1))


def launch_of_ragged(
    id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile, *, deferred: bool = False
) -> Launch:
    """The launch of one of the first two kernels, over tiles of whole rows."""
    flat, whole, kinds = tiles.flat(x, out), tiles.whole_of(rows), _kinds(rows, x)
    block, examples = min(tile.cols, whole), (Example(x.dtype, "all"), Example(out.dtype, "outer"))
    kernel = ragged_deferred_kernel if deferred else ragged_rows_kernel
    blocks = (block, tile.outer) if deferred else (tile.outer, block)
    program = Program(kernel, examples, 2, kinds, blocks, (), tile.warps, tiles.far(*flat))
    return bound(id, program, flat, flat, (rows.n, whole))


def launch_of_ragged_parts(
    id: str, flat: torch.Tensor, out: torch.Tensor, partials: torch.Tensor, rows: Rows, tile: Tile, span: int
) -> Launch:
    """The launch of the third, which leaves a minimum of each part of each row. flat: x as one axis."""
    examples = Example(flat.dtype, "all"), Example(partials.dtype, "outer parts inner")
    blocks, far = (tile.cols, tile.outer), tiles.far(flat, partials)
    program = Program(ragged_parts_kernel, examples, 2, _kinds(rows, flat), blocks, (1, 0), tile.warps, far)
    return bound(id, program, (flat, out), (flat, partials), (rows.n, span))


def _kinds(rows: Rows, x: torch.Tensor) -> tuple[Any, ...]:
    return identity(x.dtype), tiles.wide(x), tiles.shift_of(rows)
