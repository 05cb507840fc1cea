import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import exponential
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@ct.kernel
def backward_kernel(x, y, grad, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    of_row = dev.load_per_row_acc(y, group, strip, AXIS, SHAPE)
    factor = dev.load_per_row_acc(grad, group, strip, AXIS, SHAPE)
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        result = factor * exponential(dev.load_tile(x, place, 0.0, AXIS, SHAPE) - of_row)
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """The result is exp(x - y) * grad, with y and grad of the element's row: one read and one write."""
    id, tensors = "cutile/logsumexp_backward/rows", (x, y, grad, out)
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x))
    views, constants = tiles.make_views(rows, tile, tensors, others), (tile.axis, tile.shape)
    return bind_launch(id, backward_kernel, tensors, views, (), constants, tile.count_tiles(rows), tile.warps)
