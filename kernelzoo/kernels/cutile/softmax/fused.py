import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import add_exact_sum, exponential, fast_inverse, zero_if_empty
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@ct.kernel
def tile_kernel(
    x, out, n, EXACT: ct.Constant[bool], PACK: ct.Constant[int], FOLD: ct.Constant[int], AXIS: ct.Constant[int],
    SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """A tile contains complete rows, padded with -inf to a power of two."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    place = dev.block_index(0 if PACK else group, strip, 0, AXIS)
    tile = dev.load_tile(dev.whole_vectors(x, group * n, n, PACK), place, -float("inf"), AXIS, SHAPE)
    top = ct.max(tile, AXIS, keepdims=True)
    if PACK:
        places, outside, ends = dev.load_unaligned_ends(x, group * n, n, -float("inf"), dev.acc_dtype(x), PACK)
        top = ct.maximum(top, ct.max(ends, AXIS, keepdims=True))
    top = zero_if_empty(top)
    tile = exponential(tile - top)
    terms = tile
    if EXACT:  # bits must not depend on alignment
        terms = add_exact_sum(tile, ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), ct.float64), AXIS, FOLD)
    total = ct.sum(terms, AXIS, keepdims=True)
    if PACK:
        ends = exponential(ends - top)
        total = add_exact_sum(ends, total, AXIS, 2 * PACK) if EXACT else total + ct.sum(ends, AXIS, keepdims=True)
    inverse = fast_inverse(ct.astype(total, tile.dtype))
    ct.store(dev.whole_vectors(out, group * n, n, PACK), place, ct.astype(tile * inverse, out.dtype), allow_tma=False)
    if PACK:
        dev.store_unaligned_ends(out, group * n, n, places, outside, ends * inverse)


@register("cutile", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: one read, one write."""
    id, rows, device = "cutile/softmax/fused", rows_of(x, out), device_of(x)
    exact = rows.single and rows.itemsize == 2 and rows.n >= of(tiles.Knobs, device.index).ragged
    rows = rows.with_vector_loads if exact else rows
    one_row = tiles.prefers_one_row_per_program(device, rows, x)
    tile = tiles.whole_row_tile(id, device, rows, 1, one_row)
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, tile, x) if one_row else (0, tile)
    views = tiles.make_views(rows, tile, (x, out), vector_size=pack)
    constants = exact, pack, tile.elements_per_lane(rows), tile.axis, tile.shape
    return bind_launch(id, tile_kernel, (x, out), views, (rows.n,), constants, tile.count_tiles(rows), tile.warps)
