import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import exponential
from kernelzoo.kernels.cutile.states import row_state
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@ct.kernel
def backward_kernel(
    x, labels, grad, out, IGNORE_INDEX: ct.Constant[int],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    label = dev.load_per_row(labels, group, strip, AXIS, SHAPE)
    factor = dev.load_per_row_acc(grad, group, strip, AXIS, SHAPE)
    factor = ct.where((label >= 0) & (label < x.shape[AXIS]), factor, float("nan"))
    top, total = row_state(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), FOLD, AXIS, SHAPE)
    inverse = 1 / total + (total - total)  # NaN if the row has +inf, because total is infinite then
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        share = exponential(dev.load_tile(x, place, -float("inf"), AXIS, SHAPE) - top) * inverse
        right = ct.where(dev.element_indices(i, AXIS, SHAPE) == label, 1.0, 0.0)
        result = ct.where(label == IGNORE_INDEX, 0.0, factor * (share - right))
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """One pass finds the (max, sum) states of rows. A second pass reads the rows again, from cache, and writes."""
    id, tensors = "cutile/cross_entropy_backward/rows", (x, labels, grad, out)
    rows, others = layouts_of(x, out, labels, grad)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x), 2)
    views = tiles.make_views(rows, tile, tensors, others)
    constants = (ignore_index, tile.elements_per_lane(rows), tile.axis, tile.shape)
    return bind_launch(id, backward_kernel, tensors, views, (), constants, tile.count_tiles(rows), tile.warps)
