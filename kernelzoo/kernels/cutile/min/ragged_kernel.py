"""Rows that start anywhere in memory: the kernels of rows, rows_deferred_block and split_arrival for those.

The whole vectors inside a row are an array of their own, taken block by block, and what is left of the row at its ends
is read by elements.
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.min.tiles import identity
from kernelzoo.kernels.cutile.min.words import least_of, lower
from kernelzoo.kernels.cutile.tiles import Tile, cut, flat, inside_sizes
from kernelzoo.kernels.cutile.words import inside_of, memory_of, places_of_ends
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


def least_end(x, number, n, IDENTITY, PACK):
    """The minimum of what a row has outside of whole vectors."""
    place, outside = places_of_ends(number, n, PACK)
    return least_of(memory_of(x, number, n).load_offset(place, mask=outside, padding_value=IDENTITY), 0)


def block_inside(inside, block, IDENTITY, FLOAT, SIZE):
    """A block of whole vectors. Past the last it is infinity, or of integers IDENTITY."""
    padding = ct.PaddingMode.POS_INF if FLOAT else ct.PaddingMode.ZERO
    tile = ct.load(inside, (block,), (SIZE,), padding_mode=padding, allow_tma=False)
    if not FLOAT:
        tile = ct.where(ct.arange(SIZE, dtype=ct.int32) < inside.shape[0] - block * SIZE, tile, IDENTITY)
    return tile


@ct.kernel
def ragged_rows_kernel(
    x, out, n, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], PACK: ct.Constant[int], SIZE: ct.Constant[int]
):
    """Each block is reduced to a scalar before it is combined."""
    ct.grid_dependency_control_wait()
    inside = inside_of(x, ct.bid(0), n, PACK)
    least = least_end(x, ct.bid(0), n, IDENTITY, PACK)
    for i in range(ct.num_tiles(inside, 0, (SIZE,))):
        least = lower(least, least_of(block_inside(inside, i, IDENTITY, FLOAT, SIZE), 0))
    ct.store(out, (ct.bid(0),), least, allow_tma=False)


@ct.kernel
def ragged_deferred_kernel(
    x, out, n, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], PACK: ct.Constant[int], SIZE: ct.Constant[int]
):
    """The running minimum stays a tile until the row has ended."""
    ct.grid_dependency_control_wait()
    inside = inside_of(x, ct.bid(0), n, PACK)
    running = ct.full((SIZE,), IDENTITY, x.dtype)
    for i in range(ct.num_tiles(inside, 0, (SIZE,))):
        running = lower(running, block_inside(inside, i, IDENTITY, FLOAT, SIZE))
    least = lower(least_of(running, 0), least_end(x, ct.bid(0), n, IDENTITY, PACK))
    ct.store(out, (ct.bid(0),), least, allow_tma=False)


@ct.kernel
def ragged_split_kernel(
    x, out, partials, arrivals, n, parts, span, PARTS: ct.Constant[int],
    IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], PACK: ct.Constant[int], SIZE: ct.Constant[int],
):  # fmt: skip
    """A program has span blocks of a row, the first one its ends too. PARTS is the power of two that holds the minima
    of all."""
    ct.grid_dependency_control_wait()
    row = ct.bid(0) // parts
    part = ct.bid(0) % parts
    inside = inside_of(x, row, n, PACK)
    running = ct.full((SIZE,), IDENTITY, x.dtype)
    for i in range(part * span, min(part * span + span, ct.num_tiles(inside, 0, (SIZE,)))):
        running = lower(running, block_inside(inside, i, IDENTITY, FLOAT, SIZE))
    least = least_of(running, 0)
    if part == 0:
        least = lower(least, least_end(x, row, n, IDENTITY, PACK))
    ct.store(partials, (ct.bid(0),), least, allow_tma=False)
    # The arrival's release hands this program's minimum to the device, and the last program to arrive acquires those of
    # all others.
    order, scope = ct.MemoryOrder.ACQ_REL, ct.MemoryScope.DEVICE
    if ct.atomic_add(arrivals, row, 1, memory_order=order, memory_scope=scope) == parts - 1:
        every = partials.slice(0, row * parts, row * parts + parts)
        ct.store(out, (row,), least_of(block_inside(every, 0, IDENTITY, FLOAT, PARTS), 0), allow_tma=False)
        ct.scatter(arrivals, row, 0)  # for the next launch


def _kinds(rows: Rows, dtype: torch.dtype, tile: Tile) -> tuple[object, ...]:
    """IDENTITY, FLOAT, PACK and SIZE of a kernel."""
    pack, size = inside_sizes(rows)
    return identity(dtype), dtype.is_floating_point, pack, min(tile.block, size)


def launch_of_ragged(
    id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile, *, deferred: bool = False
) -> Launch:
    """The launch of one of the first two kernels, a program to each row."""
    kernel = ragged_deferred_kernel if deferred else ragged_rows_kernel
    constants = _kinds(rows, x.dtype, tile)
    return bound(id, kernel, (x, out), (flat(x), flat(out)), (rows.n,), constants, rows.total, tile.warps)


def launch_ragged_in_parts(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch of so many programs to a row as fill the device. It leaves its counts of arrivals at zero."""
    plan = cut(rows, tile, device_of(x))
    partials = x.new_empty(rows.total * plan.parts)
    arrivals = x.new_zeros(rows.total, dtype=torch.int32)
    views = [flat(one) for one in (x, out, partials, arrivals)]
    constants = (plan.merged, *_kinds(rows, x.dtype, tile))
    programs = rows.total * plan.parts
    return bound(id, ragged_split_kernel, (x, out), views, (rows.n, *plan), constants, programs, tile.warps)
