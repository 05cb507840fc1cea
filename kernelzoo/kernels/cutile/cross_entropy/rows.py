import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.states import row_state
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


def compute_loss(x, labels, group, strip, top, total, IGNORE_INDEX, AXIS, SHAPE):
    """Return the rows' losses, from their (max, sum) states. A row with +inf has an infinite sum and the loss NaN."""
    label = dev.load_per_row(labels, group, strip, AXIS, SHAPE)
    inside = (label >= 0) & (label < x.shape[AXIS])
    picked = dev.gather_elements(x, group, strip, label, inside, float("nan"), AXIS, SHAPE)
    result = ct.log(total) - (ct.astype(picked, top.dtype) - top) + (total - total)
    return ct.reshape(ct.where(label == IGNORE_INDEX, 0.0, result), dev.per_row_shape(SHAPE, AXIS))


@ct.kernel
def cross_entropy_kernel(
    x, labels, loss, IGNORE_INDEX: ct.Constant[int],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    top, total = row_state(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), FOLD, AXIS, SHAPE)
    result = compute_loss(x, labels, group, strip, top, total, IGNORE_INDEX, AXIS, SHAPE)
    ct.store(loss, (group, strip), ct.astype(result, loss.dtype), allow_tma=False)


@register("cutile", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass keeps a running (max, sum) state in each lane. Then the logit of each row's label is read."""
    id, tensors = "cutile/cross_entropy/rows", (x, labels, loss)
    rows, others = layouts_of(x, loss, labels)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x), 1, tiles.READ_BYTES)
    views = tiles.make_views(rows, tile, tensors, others)
    constants, count = (ignore_index, tile.elements_per_lane(rows), tile.axis, tile.shape), tile.count_tiles(rows)
    fit = tile.programs_per_sm(rows, 4 * tiles.FIT // rows.accumulator_bytes)
    return bind_launch(id, cross_entropy_kernel, tensors, views, (), constants, count, tile.warps, occupancy=fit)
