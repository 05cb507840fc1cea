"""Several programs to one row: a launch that leaves (maximum, sum) pairs, and one that merges them and writes."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Example, Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.helion.softmax.ragged_parts_kernel import launch_of_ragged_parts
from kernelzoo.kernels.helion.softmax.words import exponential
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def pairs_kernel(x, tops, totals, span, wide: torch.dtype):
    """A program has span elements of a block's rows, and leaves their pairs."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            tile = x[o, c, i].to(wide)
            higher = torch.maximum(top, torch.amax(tile, dim=1))
            shift = torch.where(higher == float("-inf"), 0.0, higher)
            total = total * exponential(top - shift) + exponential(tile - shift[:, None, :]).sum(1)
            top = higher
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
        shift = torch.where(top == float("-inf"), 0.0, top)
        inverse = 1.0 / (totals[o, :, i] * exponential(every - shift[:, None, :])).sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            tile = x[o, c, i].to(wide)
            out[o, c, i] = (exponential(tile - shift[:, None, :]) * inverse[:, None, :]).to(out.dtype)


@register("helion", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave (max, sum) pairs; a second launch merges them and writes.

    It reads every row twice, and no program waits for another.
    """
    id, rows, wide = "helion/softmax/split_two_launches", rows_of(x, out), tiles.wide(x)
    tile, views = tiles.block(rows, BLOCK_BYTES), tiles.seen(rows, x, out)
    plan, lies = tiles.cut(rows, tile, device_of(x)), tiles.placed(rows)
    tops, totals = x.new_empty((2, lies.outer, plan.parts, lies.inner), dtype=wide).unbind()
    if tiles.uneven(rows):
        return launch_of_ragged_parts(id, x, out, (tops, totals), rows, tile, plan.span)
    x_kind, out_kind = tiles.examples(*views)
    pair = Example(wide, "outer parts inner")
    far, blocks, order = tiles.far(*views, tops), (tile.outer, tile.inner, tile.cols), (2, 1, 0)
    leave = Program(pairs_kernel, (x_kind, pair, pair), 1, (wide,), blocks, order, tile.warps, far)
    write = Program(merge_kernel, (x_kind, pair, pair, out_kind), 1, (wide,), blocks, order, tile.warps, far)
    return sequence(
        bound(id, leave, views, (views[0], tops, totals), (plan.span,)),
        bound(id, write, views, (views[0], tops, totals, views[1]), (plan.span,)),
    )
