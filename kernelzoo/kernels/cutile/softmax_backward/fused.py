"""Past a row's end both inputs are 0, which adds nothing."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


def load_both_inputs(grad, y, place, AXIS, SHAPE):
    """Load a tile of each input in the accumulator dtype, with 0 past the end of rows. One branch loads both."""
    if dev.tile_is_inside(grad, place, SHAPE):
        return dev.load_whole_tile(grad, place, SHAPE), dev.load_whole_tile(y, place, SHAPE)
    return dev.load_masked_tile(grad, place, 0.0, AXIS, SHAPE), dev.load_masked_tile(y, place, 0.0, AXIS, SHAPE)


@ct.kernel
def tile_kernel(grad, y, out, n, PACK: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), grad, AXIS, SHAPE)
    place = dev.block_index(0 if PACK else group, strip, 0, AXIS)
    grads, weights = load_both_inputs(
        dev.whole_vectors(grad, group * n, n, PACK), dev.whole_vectors(y, group * n, n, PACK), place, AXIS, SHAPE
    )
    total = ct.sum(grads * weights, AXIS, keepdims=True)
    if PACK:
        _, _, grad_ends = dev.load_unaligned_ends(grad, group * n, n, 0.0, dev.acc_dtype(grad), PACK)
        places, outside, y_ends = dev.load_unaligned_ends(y, group * n, n, 0.0, dev.acc_dtype(grad), PACK)
        total = total + ct.sum(grad_ends * y_ends, AXIS, keepdims=True)
    result = ct.astype(weights * (grads - total), out.dtype)
    ct.store(dev.whole_vectors(out, group * n, n, PACK), place, result, allow_tma=False)
    if PACK:
        dev.store_unaligned_ends(out, group * n, n, places, outside, y_ends * (grad_ends - total))


@register("cutile", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: both inputs are read once."""
    id, tensors, device = "cutile/softmax_backward/fused", (grad, y, out), device_of(grad)
    rows, others = layouts_of(grad, out, y)
    one_row = tiles.prefers_one_row_per_program(device, rows, grad)
    tile = tiles.whole_row_tile(id, device, rows, 2, one_row)
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, tile, grad, y) if one_row else (0, tile)
    views, constants = tiles.make_views(rows, tile, tensors, others, pack), (pack, tile.axis, tile.shape)
    return bind_launch(id, tile_kernel, tensors, views, (rows.n,), constants, tile.count_tiles(rows), tile.warps)
