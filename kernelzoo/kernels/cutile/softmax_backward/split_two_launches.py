from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.softmax_backward.online import FIT, product_sums, write_blocks
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@ct.kernel
def partials_kernel(
    grad, y, sums, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """Each program adds up ``span`` blocks of each row in a tile, and stores one sum per row."""
    ct.grid_dependency_control_wait()
    group, strip, part, begin, end = dev.part_coords(grad, parts, span, AXIS, SHAPE)
    total = product_sums(grad, y, group, strip, begin, end, FOLD, AXIS, SHAPE)
    ct.store(sums, dev.block_index(group, strip, part, AXIS), total, allow_tma=False)


@ct.kernel
def write_kernel(
    grad, y, out, sums, parts, span, PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """Each program adds up its rows' sums, at most PARTS per row, in the same order, so that all get the same bits."""
    ct.grid_dependency_control_wait()
    group, strip, _, begin, end = dev.part_coords(grad, parts, span, AXIS, SHAPE)
    every = dev.reduced_shape(SHAPE, AXIS, PARTS)
    left = dev.load_tile(sums, dev.block_index(group, strip, 0, AXIS), 0.0, AXIS, every)
    write_blocks(grad, y, out, ct.sum(left, AXIS, keepdims=True), group, strip, begin, end, AXIS, SHAPE)


@register("cutile", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store sums. A second launch adds them up and writes."""
    id, tensors = "cutile/softmax_backward/split_two_launches", (grad, y, out)
    rows, others = layouts_of(grad, out, y)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2)
    plan = tiles.plan_parts(rows, tile, device_of(grad))
    views = tiles.make_views(rows, tile, tensors, others)
    sums = tiles.part_workspace(rows, tile, plan, grad, tiles.acc_dtype(grad.dtype))
    constants, programs = (tile.axis, tile.shape), tile.count_tiles(rows) * plan.parts
    of_all = partial(bind_launch, id, warps=tile.warps, grid=programs, occupancy=tile.programs_per_sm(rows, FIT))
    leave = of_all(partials_kernel, tensors, (*views[:2], sums), plan, (tile.elements_per_lane(rows), *constants))
    return chain_launches(leave, of_all(write_kernel, tensors, (*views, sums), plan, (plan.padded_parts, *constants)))
