import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


def float8_bits(value, HARDWARE):
    """Return the bits of the nearest float8_e4m3fn, ties to even. HARDWARE: use cuTile's dtype (9.0 or later)."""
    if HARDWARE:
        return ct.bitcast(ct.astype(value, ct.float8_e4m3fn), ct.uint8)
    bits = ct.bitcast(value, ct.int32)
    size = bits & 0x7FFFFFFF
    normal = (size - (120 << 23) + 0x7FFFF + ((size >> 20) & 1)) >> 20
    # Below 2^-6, float8 values are 2^-9 apart, as float32 values from 2^14 to 2^15 are: adding 2^14 rounds to them.
    small = ct.bitcast(ct.bitcast(size, ct.float32) + 16384.0, ct.int32) - (141 << 23)
    eight = ct.where(size < (121 << 23), small, normal)
    return ct.astype(ct.where(value == value, eight, 0x7F) | ((bits >> 24) & 0x80), ct.uint8)


def magnitude_bits(tile):
    """Return the bits without the sign. They are ordered as absolute values are, and NaN is the largest."""
    return ct.bitcast(tile, ct.int32) & 0x7FFFFFFF


def scale_from_max(largest_bits):
    """Return a row's scale from the bits of its largest magnitude."""
    top = ct.bitcast(largest_bits, ct.float32)
    return ct.where(top < LEAST, 1.0, top / TOP)


@ct.kernel
def quantize_kernel(
    x, values, scale, HARDWARE: ct.Constant[bool], HELD: ct.Constant[bool],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """HELD: whether a tile contains complete rows. Each row is then read only once."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    if HELD:
        place = dev.block_index(group, strip, 0, AXIS)
        tile = dev.load_tile(x, place, 0.0, AXIS, SHAPE)
        by = scale_from_max(ct.max(magnitude_bits(tile), AXIS, keepdims=True))
        ct.store(values, place, float8_bits(tile * (1.0 / by), HARDWARE), allow_tma=False)
    else:
        most = ct.zeros(SHAPE, ct.int32)
        ranges = dev.inside_and_edge_ranges(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), AXIS, SHAPE)
        for WHOLE, first, last in ct.static_iter(ranges):
            for i in range(first, last):
                tile = dev.load_block(x, dev.block_index(group, strip, i, AXIS), 0.0, AXIS, SHAPE, WHOLE)
                most = ct.maximum(most, magnitude_bits(tile))
        by = scale_from_max(ct.max(most, AXIS, keepdims=True))
        for WHOLE, first, last in ct.static_iter(ranges):
            for i in range(first, last):
                place = dev.block_index(group, strip, i, AXIS)
                tile = dev.load_block(x, place, 0.0, AXIS, SHAPE, WHOLE)
                bits = float8_bits(tile * (1.0 / by), HARDWARE)
                ct.store(values, place, bits, check_bounds=not WHOLE, allow_tma=False)
    ct.store(scale, (group, strip), ct.reshape(by, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)


@register("cutile", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """A row that fits on chip is read once. A longer row is read again, from cache, to be scaled."""
    values = values.view(torch.uint8)
    id, arrays = "cutile/quantize_rows/rows", (x, values, scale)
    rows, others = layouts_of(x, values, scale)
    device = device_of(x)
    held, tile, fit = tiles.whole_row_or_block_plan(id, device, rows, 2)
    source, scales, target = tiles.make_views(rows, tile, (x, scale, values), others)
    views, kinds = (source, target, scales), (device.capability >= 90, held, tile.axis, tile.shape)
    return bind_launch(id, quantize_kernel, arrays, views, (), kinds, tile.count_tiles(rows), tile.warps, occupancy=fit)
