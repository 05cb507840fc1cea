"""A program takes several rows, or one by blocks: a (max, sum) state in each lane, then the label's logit."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import exponential, lowest, online_update
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


def row_state(x, group, strip, FOLD, AXIS, SHAPE):
    """(max, sum) of a tile's rows, in one pass. Of a row with a NaN or +inf the sum is NaN, of -inf alone 0."""
    top = lowest(x, dev.lane_shape(SHAPE, AXIS, FOLD))
    total = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        tile = dev.load_tile(x, dev.block_index(group, strip, i, AXIS), -float("inf"), AXIS, SHAPE)
        top, total = online_update(top, total, tile, AXIS, FOLD)
    row_top = ct.max(top, AXIS, keepdims=True)
    return row_top, ct.sum(total * exponential(top - row_top), AXIS, keepdims=True)


def element_of_rows(x, group, strip, element, inside, AXIS, SHAPE):
    """One element of each of a tile's rows, NaN where it is not inside."""
    groups = ct.reshape(ct.arange(SHAPE[0], dtype=ct.int64) + group * SHAPE[0], (SHAPE[0], 1, 1))
    lanes = ct.arange(SHAPE[3 - AXIS], dtype=ct.int64) + strip * SHAPE[3 - AXIS]
    lanes = ct.reshape(lanes, (1, SHAPE[1], 1) if AXIS == 2 else (1, 1, SHAPE[2]))
    place = (groups, lanes, element) if AXIS == 2 else (groups, element, lanes)
    return ct.astype(ct.gather(x, place, mask=inside, padding_value=float("nan")), dev.acc_dtype(x))


@ct.kernel
def cross_entropy_kernel(
    x, labels, loss, IGNORE_INDEX: ct.Constant[int],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    top, total = row_state(x, group, strip, FOLD, AXIS, SHAPE)
    label = dev.of_rows(labels, group, strip, AXIS, SHAPE)
    picked = element_of_rows(x, group, strip, label, (label >= 0) & (label < x.shape[AXIS]), AXIS, SHAPE)
    result = ct.where(label == IGNORE_INDEX, 0.0, ct.log(total) - (picked - top))
    result = ct.reshape(ct.astype(result, loss.dtype), dev.row_shape(SHAPE, AXIS))
    ct.store(loss, (group, strip), result, allow_tma=False)


@register("cutile", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass that keeps a running (max, sum) state in each lane, and one element more."""
    id, tensors = "cutile/cross_entropy/rows", (x, labels, loss)
    rows, others = rows_with(x, loss, labels)
    tile = tiles.plain(rows, device_of(x), 2)
    views, constants = tiles.make_views(rows, tile, tensors, others), (tile.fold(rows), tile.axis, tile.shape)
    return bound(id, cross_entropy_kernel, tensors, views, (), (ignore_index, *constants), tile.count(rows), tile.warps)
