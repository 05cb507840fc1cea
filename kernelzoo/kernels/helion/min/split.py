"""Helion has no barrier that must stand before a program counts itself as arrived, so that the last could do that."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.device_functions import inside_of, places_of_ends, taken
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.min.rows import rows_kernel
from kernelzoo.kernels.helion.min.tiles import block_tile, kinds
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import plain, power_of_two
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def parts_kernel(x, partials, span, nothing: hl.constexpr, wide: torch.dtype):
    """A program has span elements of a block's rows. nothing: what no element is above."""
    outer, n, inner = x.size()
    parts = partials.size(1)
    block = hl.register_block_size(n)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = hl.full([o, block, i], nothing, dtype=wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n), block_size=block):
            inside = (c.index < n)[None, :, None]
            least = torch.minimum(least, torch.where(inside, x[o, c, i].to(wide), nothing))
        partials[o, part.begin, i] = torch.amin(least, dim=1)


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


@register("helion", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave partial minima, which a second launch reduces."""
    id, x, out = "helion/min/split", plain(x), plain(out)
    rows, views = tiles.problem(x, out)
    device = device_of(x)
    tile = block_tile(device, rows)
    plan = tiles.cut_of(rows, tile, device)
    partials = tiles.left_of(x, rows, plan, tiles.wide(x))
    (whole, last), far = tiles.examples(partials, views[1]), tiles.far(*views, partials)
    lanes = tile.outer, tile.inner, power_of_two(plan.parts)
    reduce = Program(rows_kernel, (whole, last), 0, kinds(rows, x)[:2], lanes, (1, 0), 1, far)
    kernel, numbers = parts_kernel, [plan.span]
    blocks: tuple[int, ...] = (tile.cols, tile.outer, tile.inner)
    if tiles.uneven(rows):
        views, blocks = (tiles.flat(x)[0], views[1]), blocks[:2]
        kernel, numbers, far = ragged_parts_kernel, [rows.n, plan.span], tiles.far(views[0], partials)
    examples = *tiles.examples(views[0]), Example(partials.dtype, "outer parts inner")
    order = tuple(reversed(range(len(blocks))))
    leave = Program(kernel, examples, len(numbers), kinds(rows, x), blocks, order, tile.warps, far)
    first = bound(id, leave, views, (views[0], partials), numbers)
    return sequence(first, bound(id, reduce, views, (partials, views[1])))
