import cutlass
import torch
from cutlass import Float8E4M3FN, Float32, Int32, Uint8, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv
from kernelzoo.registry import register


def magnitude(x):
    """Return x's bits without the sign. As integers they order as magnitudes do, and NaN is largest."""
    return x.bitcast(Int32) & 0x7FFFFFFF


def row_scale(largest_magnitude_bits):
    """Return a row's scale. ``largest_magnitude_bits``: the bits of the row's largest magnitude."""
    top = largest_magnitude_bits.bitcast(Float32)
    return dev.select(top < LEAST, Float32(1.0), top / Float32(TOP))


def float8_bits(value):
    """Return the bits of the nearest float8_e4m3fn, ties to even, without float8 instructions of the hardware."""
    bits = value.bitcast(Int32)
    size = bits & 0x7FFFFFFF
    normal = (size - (120 << 23) + 0x7FFFF + ((size >> 20) & 1)) >> 20
    # Below 2^-6, float8's spacing is 2^-9. So is float32's from 2^14 to 2^15, so adding 2^14 rounds to it.
    small = (size.bitcast(Float32) + Float32(16384.0)).bitcast(Int32) - (141 << 23)
    eight = dev.select(size < (121 << 23), small, cutlass.min(normal, Int32(0x7E)))
    return (dev.select(value == value, eight, Int32(0x7F)) | ((bits >> 24) & 0x80)).to(Uint8)


def to_float8(values, hardware):
    """Convert a thread's float32 values to the bits of float8. If ``hardware``, instructions convert four at once."""
    flat = [value for vector in values for value in vector]
    if hardware:
        wide = cute.make_rmem_tensor(cdiv(len(flat), 4) * 4, Float32)
        wide.fill(0.0)
        for k, value in enumerate(flat):
            wide[k] = value
        eight = cute.make_rmem_tensor(wide.shape, Float8E4M3FN)
        eight.store(wide.load().to(Float8E4M3FN))
        flat = cute.recast_tensor(eight, Uint8)
    else:
        flat = [float8_bits(value) for value in flat]
    size = len(values[0])
    return [[flat[j * size + v] for v in range(size)] for j in range(len(values))]


@cute.kernel
def quantize_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, values, scale) = arguments.rows, arguments.tensors
    tXcX, tXgX, tXgV = dev.partition(tile, rows, TILE, x, values)
    read = fn.make_block_loader(TILE, lambda i: dev.load(tXgX, tXcX, i, rows, TILE))
    blocks = dev.blocks_per_row(rows, TILE)
    most = dev.make_accumulator(0, TILE, Int32)
    for i in cutlass.range(blocks):
        sizes = dev.map_rows(magnitude, read(i), TILE)
        dev.accumulate(most, dev.thread_reduce(sizes, dev.maximum, TILE), dev.maximum)
    scales = [row_scale(one) for one in dev.block_reduce(dev.list_values(most), dev.maximum, TILE)]
    write_rows(scales, scale, dev.first_row(tile, TILE), rows, TILE)
    inverses = [Float32(1.0) / one for one in scales]  # exact if the scale is a power of two, so ties remain ties
    for i in cutlass.range(blocks):
        scaled = dev.map_rows(lambda value, inverse: value * inverse, read(i), TILE, inverses)
        dev.store(to_float8(scaled, EARLY), tXgV, tXcX, i, rows, TILE)  # EARLY is true from capability 9.0 on


@register("cute", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """Rows that fit in registers are read once. Longer ones are read again, from cache, and scaled."""
    values = values.view(torch.uint8)
    given = tiles.make_problem(x, scale, values)
    return bind("cute/quantize_rows/rows", quantize_kernel, (x, values, scale), given, tiles.read_once_tile(given))
