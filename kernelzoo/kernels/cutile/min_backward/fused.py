"""Elements are compared in the accumulator dtype. Past a row's end they are NaN, which equals nothing."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


def split_gradient(grad, count, DTYPE):
    """Return the gradient of each of count equal minima, and that of other elements: grad * 0, NaN if count is 0."""
    rest = ct.where(count > 0, grad * 0.0, float("nan"))
    return ct.astype(grad / ct.astype(count, grad.dtype), DTYPE), ct.astype(rest, DTYPE)


@ct.kernel
def tile_kernel(x, y, grad, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    place = dev.block_index(group, strip, 0, AXIS)
    equal = dev.load_tile(x, place, float("nan"), AXIS, SHAPE) == dev.load_per_row_acc(y, group, strip, AXIS, SHAPE)
    count = ct.sum(ct.astype(equal, ct.int32), AXIS, keepdims=True)
    each, rest = split_gradient(dev.load_per_row_acc(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    ct.store(out, place, ct.where(equal, each, rest), allow_tma=False)


@register("cutile", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: one read, one write."""
    id, tensors = "cutile/min_backward/fused", (x, y, grad, out)
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.whole_row_tile(id, device_of(x), rows, 1)
    views = tiles.make_views(rows, tile, tensors, others)
    return bind_launch(id, tile_kernel, tensors, views, (), (tile.axis, tile.shape), tile.count_tiles(rows), tile.warps)
