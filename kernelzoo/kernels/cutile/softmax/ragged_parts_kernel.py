"""Several programs to a row that starts anywhere in memory: the kernels of split_two_launches for those.

The whole vectors inside a row are an array of their own, of which each program takes blocks, and what is left of the
row at its ends is read by elements, by the first program.
"""

from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.online import FIT
from kernelzoo.kernels.cutile.softmax.words import exponential, inverse_of, lowest, taken_in
from kernelzoo.kernels.cutile.tiles import Cut, Tile, flat, inside_sizes, wide_dtype
from kernelzoo.kernels.cutile.words import (
    block_inside,
    ends_of,
    inside_of,
    memory_of,
    stretches_inside,
    taken_inside,
    wide,
)
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import Rows


@ct.kernel
def leave_ragged_kernel(x, tops, totals, n, parts, span, PACK: ct.Constant[int], SIZE: ct.Constant[int]):
    """A program has span blocks of a row, of which it leaves one pair."""
    ct.grid_dependency_control_wait()
    row, part = ct.bid(0) // parts, ct.bid(0) % parts
    inside = inside_of(x, row, n, PACK)
    LANES = (1, 1, SIZE // PACK)
    top, total = lowest(x, LANES), ct.zeros(LANES, wide(x))
    end = min(part * span + span, ct.num_tiles(inside, 0, (SIZE,)))
    stretches = stretches_inside(inside, part * span, end, SIZE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in L2 still when the others write.
            block = taken_inside(inside, first + last - 1 - i, -float("inf"), SIZE, WHOLE)
            top, total = taken_in(top, total, block, 2, PACK)
    top, total = ct.reshape(top, (SIZE // PACK,)), ct.reshape(total, (SIZE // PACK,))
    row_top = ct.max(top, 0, keepdims=True)
    row_total = ct.sum(total * exponential(top - row_top), 0, keepdims=True)
    if part == 0:
        _, _, ends = ends_of(x, row, n, -float("inf"), PACK)
        higher = ct.maximum(row_top, ct.max(ends, 0, keepdims=True))
        row_total = row_total * exponential(row_top - higher) + ct.sum(exponential(ends - higher), 0, keepdims=True)
        row_top = higher
    ct.store(tops, (ct.bid(0),), row_top, allow_tma=False)
    ct.store(totals, (ct.bid(0),), row_total, allow_tma=False)


@ct.kernel
def write_ragged_kernel(
    x, out, tops, totals, n, parts, span, PARTS: ct.Constant[int], PACK: ct.Constant[int], SIZE: ct.Constant[int]
):
    """Every program merges all pairs of its row in the same order, so that all agree to the bit. PARTS is the power of
    two that holds them."""
    ct.grid_dependency_control_wait()
    row, part = ct.bid(0) // parts, ct.bid(0) % parts
    every_top = block_inside(tops.slice(0, row * parts, row * parts + parts), 0, -float("inf"), PARTS)
    every_total = block_inside(totals.slice(0, row * parts, row * parts + parts), 0, 0.0, PARTS)
    top = ct.max(every_top, 0, keepdims=True)
    inverse = inverse_of(ct.sum(every_total * exponential(every_top - top), 0, keepdims=True))
    inside, target = inside_of(x, row, n, PACK), inside_of(out, row, n, PACK)
    end = min(part * span + span, ct.num_tiles(inside, 0, (SIZE,)))
    stretches = stretches_inside(inside, part * span, end, SIZE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # The index is the loop's own: see online.
            result = exponential(taken_inside(inside, i, -float("inf"), SIZE, WHOLE) - top) * inverse
            ct.store(target, (i,), ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)
    if part == 0:
        place, outside, ends = ends_of(x, row, n, -float("inf"), PACK)
        result = exponential(ends - top) * inverse
        memory_of(out, row, n).store_offset(place, ct.astype(result, out.dtype), mask=outside)


def launch_ragged_in_parts(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile, plan: Cut) -> Launch:
    """Both launches, over so many programs to a row as a plan says."""
    pack, size = inside_sizes(rows)
    size, programs = min(tile.block, size), rows.total * plan.parts
    pairs = [flat(x.new_empty(programs, dtype=wide_dtype(x.dtype))) for _ in range(2)]
    numbers, views = (rows.n, *plan), (flat(x), flat(out), *pairs)
    leaving = (views[0], *pairs)
    of_all = partial(bound, id, warps=tile.warps, programs=programs, occupancy=tile.occupancy(rows, FIT, True))
    leave = of_all(leave_ragged_kernel, (x, out), leaving, numbers, (pack, size))
    return sequence(leave, of_all(write_ragged_kernel, (x, out), views, numbers, (plan.merged, pack, size)))
