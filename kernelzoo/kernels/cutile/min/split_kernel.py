"""Several programs take rows in parts and leave partial minima, which the last to arrive joins: the kernel of
split_arrival, and along another axis, of columns_split."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import View, bound, device_of
from kernelzoo.kernels.cutile.min.tiles import kinds
from kernelzoo.kernels.cutile.min.words import block_of, least_of, lower
from kernelzoo.kernels.cutile.tiles import Tile
from kernelzoo.kernels.cutile.words import block_at, ends, slim, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


@ct.kernel
def split_kernel(
    x, out, partials, arrivals, parts, span, PARTS: ct.Constant[int], PARTS_RAGGED: ct.Constant[bool],
    IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], RAGGED: ct.Constant[bool],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """A program has span blocks of a tile's rows. PARTS is the power of two that holds the minima of all."""
    ct.grid_dependency_control_wait()
    number = ct.bid(0) // parts
    part = ct.bid(0) % parts
    group, strip = tile_of(number, x, AXIS, SHAPE)
    running = ct.full(SHAPE, IDENTITY, x.dtype)
    for i in range(part * span, min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))):
        running = lower(running, block_of(x, group, strip, i, IDENTITY, FLOAT, RAGGED, AXIS, SHAPE))
    ct.store(partials, block_at(group, strip, part, AXIS), least_of(running, AXIS), allow_tma=False)
    # The arrival's release hands this program's minima to the device, and the last program to arrive acquires those of
    # all others.
    order, scope = ct.MemoryOrder.ACQ_REL, ct.MemoryScope.DEVICE
    if ct.atomic_add(arrivals, number, 1, memory_order=order, memory_scope=scope) == parts - 1:
        every = slim(SHAPE, AXIS, PARTS)
        found = block_of(partials, group, strip, 0, IDENTITY, FLOAT, PARTS_RAGGED, AXIS, every)
        ct.store(out, (group, strip), ct.reshape(least_of(found, AXIS), ends(SHAPE, AXIS)), allow_tma=False)
        ct.scatter(arrivals, number, 0)  # for the next launch


def launch_in_parts(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch of so many programs to a tile as fill the device. It leaves its counts of arrivals at zero."""
    plan, count = tiles.cut(rows, tile, device_of(x)), tile.count(rows)
    partials = tiles.left(rows, tile, plan, x, x.dtype)
    arrivals = x.new_zeros(count, dtype=torch.int32)
    views = (*tiles.seen_all(rows, tile, (x, out)), partials, View(arrivals, (count,), (1,)))
    ragged = not x.dtype.is_floating_point and plan.parts != plan.merged
    constants = (plan.merged, ragged, *kinds(rows, x.dtype, tile))
    return bound(id, split_kernel, (x, out), views, plan, constants, count * plan.parts, tile.warps)
