from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.min_backward.fused import split_gradient
from kernelzoo.kernels.cutile.min_backward.online import count_equal, write_gradient_blocks
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@ct.kernel
def partials_kernel(
    x, y, counts, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """Each program counts the minima in ``span`` blocks of a tile's rows, and stores one count per row."""
    ct.grid_dependency_control_wait()
    group, strip, part, begin, end = dev.part_coords(x, parts, span, AXIS, SHAPE)
    count = count_equal(
        x, dev.load_per_row_acc(y, group, strip, AXIS, SHAPE), group, strip, begin, end, FOLD, AXIS, SHAPE
    )
    ct.store(counts, dev.block_index(group, strip, part, AXIS), count, allow_tma=False)


@ct.kernel
def write_kernel(
    x, y, grad, out, counts, parts, span, PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """PARTS: the number of counts per row, rounded up to a power of two."""
    ct.grid_dependency_control_wait()
    group, strip, _, begin, end = dev.part_coords(x, parts, span, AXIS, SHAPE)
    left = dev.load_zero_padded(counts, dev.block_index(group, strip, 0, AXIS), dev.reduced_shape(SHAPE, AXIS, PARTS))
    count = ct.sum(left, AXIS, keepdims=True)
    least = dev.load_per_row_acc(y, group, strip, AXIS, SHAPE)
    min_grad, other_grad = split_gradient(dev.load_per_row_acc(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    write_gradient_blocks(x, out, least, min_grad, other_grad, group, strip, begin, end, AXIS, SHAPE)


@register("cutile", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store counts. A second launch adds them up and writes."""
    id, tensors = "cutile/min_backward/split_two_launches", (x, y, grad, out)
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2)
    plan = tiles.plan_parts(rows, tile, device_of(x))
    views = tiles.make_views(rows, tile, tensors, others)
    counts = tiles.part_workspace(rows, tile, plan, x, torch.int64)
    constants, programs = (tile.axis, tile.shape), tile.count_tiles(rows) * plan.parts
    of_all = partial(bind_launch, id, warps=tile.warps, grid=programs, occupancy=tile.programs_per_sm(rows, tiles.FIT))
    leave = of_all(partials_kernel, tensors, (*views[:2], counts), plan, (tile.elements_per_lane(rows), *constants))
    return chain_launches(leave, of_all(write_kernel, tensors, (*views, counts), plan, (plan.padded_parts, *constants)))
