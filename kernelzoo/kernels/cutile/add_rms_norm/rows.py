"""A program adds several rows, or a block at a time, to others, and their squares up, and reads the sums to write."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def add_rms_norm_kernel(
    x, residual, weight, out, total, EPS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    squares = ct.zeros(SHAPE, dev.acc_dtype(x))
    lost = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        tile = dev.load_tile(x, place, 0.0, AXIS, SHAPE) + dev.load_tile(residual, place, 0.0, AXIS, SHAPE)
        rounded = ct.astype(tile, total.dtype)
        ct.store(total, place, rounded, allow_tma=False)
        tile = ct.astype(rounded, squares.dtype)
        squares, lost = dev.add_exactly(squares, lost, tile * tile)
    mean = dev.row_mean(squares, lost, x, AXIS)
    scale = 1 / ct.sqrt(mean + dev.constant(EPS, mean.dtype))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        result = dev.load_tile(total, place, 0.0, AXIS, SHAPE) * scale * dev.weights_of(weight, i, AXIS, SHAPE)
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """Sums are written, and their squares added up in each lane; then they are read again, from cache."""
    id, tensors = "cutile/add_rms_norm/rows", (x, residual, weight, out, total)
    rows, others = rows_with(x, out, residual, total)
    tile = tiles.plain(rows, device_of(x), 2)
    source, beside, sums, target = tiles.make_views(rows, tile, (x, residual, total, out), others)
    views = (source, beside, tiles.of_elements(tile, weight), target, sums)
    constants = (tiles.bits(eps), tile.axis, tile.shape)
    return bound(id, add_rms_norm_kernel, tensors, views, (), constants, tile.count(rows), tile.warps)
