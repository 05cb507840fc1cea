"""Several programs take rows in parts and leave partial minima; a second launch reduces them."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.min.ragged_kernel import launch_of_ragged_parts
from kernelzoo.kernels.helion.min.rows import rows_kernel
from kernelzoo.kernels.helion.min.tiles import Numbers, column_tile, identity, plain, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


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


@register("helion", "min", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave partial minima, which a second launch reduces."""
    x, out = plain(x), plain(out)
    id, rows, device = "helion/min/split_two_launches", rows_of(x, out), device_of(x)
    tile = column_tile(rows) if rows.across else row_tile(of(Numbers, device.index), device, rows)
    views, plan, lies = tiles.seen(rows, x, out), tiles.cut(rows, tile, device), tiles.placed(rows)
    partials = x.new_empty((lies.outer, plan.parts, lies.inner), dtype=tiles.wide(x))
    x_kind, out_kind = tiles.examples(*views)
    kinds, far = (identity(x.dtype), tiles.wide(x)), tiles.far(*views, partials)
    blocks = tile.cols, tile.outer, tile.inner
    left = Example(partials.dtype, "outer parts inner")
    leave = Program(parts_kernel, (x_kind, left), 1, kinds, blocks, (2, 1, 0), tile.warps, far)
    lanes = tile.outer, tile.inner, power_of_two(plan.parts)
    reduce = Program(rows_kernel, (Example(partials.dtype), out_kind), 0, kinds, lanes, (1, 0), 1, far)
    if tiles.uneven(rows):
        views = tiles.flat(x)[0], views[1]
        first = launch_of_ragged_parts(id, *views, partials, rows, tile, plan.span)
    else:
        first = bound(id, leave, views, (views[0], partials), (plan.span,))
    return sequence(first, bound(id, reduce, views, (partials, views[1])))
