"""A tile of whole rows to a program, which it holds on chip: one read, one write.

Several short rows, one row, or a strip of columns where rows lie across memory: one kernel, along another axis.
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import exponential, inverse_of, zero_if_empty
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def tile_kernel(x, out, n, PACK: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """Along rows the tile is the power of two that holds one: past its end it is -inf."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    place = dev.block_index(0 if PACK else group, strip, 0, AXIS)
    tile = dev.load_tile(dev.whole_vectors(x, group, n, PACK), place, -float("inf"), AXIS, SHAPE)
    top = ct.max(tile, AXIS, keepdims=True)
    if PACK:
        places, outside, ends = dev.row_ends(x, group, n, -float("inf"), dev.acc_dtype(x), PACK)
        top = ct.maximum(top, ct.max(ends, AXIS, keepdims=True))
    top = zero_if_empty(top)
    tile = exponential(tile - top)
    total = ct.sum(tile, AXIS, keepdims=True)
    if PACK:
        ends = exponential(ends - top)
        total = total + ct.sum(ends, AXIS, keepdims=True)
    inverse = inverse_of(total)
    ct.store(dev.whole_vectors(out, group, n, PACK), place, ct.astype(tile * inverse, out.dtype), allow_tma=False)
    if PACK:
        dev.store_row_ends(out, group, n, places, outside, ends * inverse)


@register("cutile", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a program, which it holds on chip: several short ones, one, or a strip of columns."""
    id, rows, device = "cutile/softmax/fused", rows_of(x, out), device_of(x)
    alone = tiles.is_alone(device, rows, x)
    tile = tiles.held(id, device, rows, 1, alone)
    pack, tile = tiles.ragged(rows, tile, x) if alone else (0, tile)
    views, constants = tiles.make_views(rows, tile, (x, out), pack=pack), (pack, tile.axis, tile.shape)
    return bound(id, tile_kernel, (x, out), views, (rows.n,), constants, tile.count(rows), tile.warps)
