import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import View, bind_launch, device_of
from kernelzoo.kernels.cutile.min.device_functions import load_padded, min_of_unaligned_ends, nan_minimum, row_min
from kernelzoo.kernels.cutile.min.tiles import kernel_constants, running_min_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@ct.kernel
def split_kernel(
    x, out, partials, arrivals, n, parts, span, PARTS: ct.Constant[int], PARTS_MASKED: ct.Constant[bool],
    IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], MASKED: ct.Constant[bool],
    PACK: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """Each program reads ``span`` blocks of a tile's rows. PARTS: minima per row, rounded up to a power of two."""
    ct.grid_dependency_control_wait()
    number = ct.bid(0) // parts
    part = ct.bid(0) % parts
    group, strip = dev.tile_coords(number, x, AXIS, SHAPE)
    inside, first = dev.whole_vectors(x, group * n, n, PACK), 0 if PACK else group
    running = ct.full(SHAPE, IDENTITY, x.dtype)
    for i in range(part * span, min(part * span + span, ct.num_tiles(inside, AXIS, SHAPE))):
        running = nan_minimum(running, load_padded(inside, first, strip, i, IDENTITY, FLOAT, MASKED, AXIS, SHAPE))
    least = row_min(running, AXIS)
    if PACK:  # noqa: SIM102  # a compile-time constant
        if part == 0:
            least = nan_minimum(least, min_of_unaligned_ends(x, group, n, IDENTITY, PACK))
    ct.store(partials, dev.block_index(group, strip, part, AXIS), least, allow_tma=False)
    # The arrival's release makes this program's minima visible to the device. The last program to arrive acquires the
    # minima of all others.
    order, scope = ct.MemoryOrder.ACQ_REL, ct.MemoryScope.DEVICE
    if ct.atomic_add(arrivals, number, 1, memory_order=order, memory_scope=scope) == parts - 1:
        every = dev.reduced_shape(SHAPE, AXIS, PARTS)
        found = load_padded(partials, group, strip, 0, IDENTITY, FLOAT, PARTS_MASKED, AXIS, every)
        ct.store(out, (group, strip), ct.reshape(row_min(found, AXIS), dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)
        ct.scatter(arrivals, number, 0)  # for the next launch


@register("cutile", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns. The last to finish reduces their minima: one launch.

    That program also resets its arrival counter to 0, so that the launch may be repeated."""
    id, x, out = "cutile/min/split", bool_as_uint8(x), bool_as_uint8(out)
    rows, device = rows_of(x, out), device_of(x)
    tile = running_min_tile(device, rows)
    plan, count = tiles.plan_parts(rows, tile, device), tile.count_tiles(rows)
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, tile, x)
    partials, arrivals = tiles.part_workspace(rows, tile, plan, x, x.dtype), x.new_zeros(count, dtype=torch.int32)
    views = (*tiles.make_views(rows, tile, (x, out), vector_size=pack), partials, View(arrivals, (count,), (1,)))
    masked = not x.dtype.is_floating_point and plan.parts != plan.padded_parts
    constants = (plan.padded_parts, masked, *kernel_constants(rows, x.dtype, tile, pack))
    return bind_launch(id, split_kernel, (x, out), views, (rows.n, *plan), constants, count * plan.parts, tile.warps)
