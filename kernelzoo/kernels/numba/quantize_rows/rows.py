from functools import partial

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import minimum, opaque
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.float8 import float8_converter
from kernelzoo.kernels.numba.lanes import lane_access, register_tiling, tile_starts
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_coords, row_finder, row_start
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.registry import register

FLOAT, (ZERO, ONE, LARGEST, SMALLEST) = WIDE["float32"], (constant("float32", value) for value in (0, 1, TOP, LEAST))


@make_once
def quantize_kernel(dtype: str, tiling: Tiling, hardware: bool) -> Source:
    (load, value, _), (_, _, store_bits) = lane_access(dtype, tiling), lane_access("uint8", tiling)
    (_, store), convert = machine.element_accessors("float32"), float8_converter(tiling.read_size, hardware)
    (_, block_min, _), find_row, tiles = block_reduce(tiling, ZERO), row_finder(tiling), tile_starts(tiling)
    WORD, WORDS, SIZE, HELD = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.held
    SCRATCH, pointees = tiling.scratch, (dtype, "uint8", "float32")

    def quantize(x, values, scale, rows, inner, n, x_at, scale_at, phase, values_at):
        words = cuda.local.array(WORDS, WORD)
        scaled = cuda.local.array(SIZE, FLOAT)
        bits = cuda.local.array(SIZE, types.int32)
        scratch = cuda.shared.array(SCRATCH, FLOAT)
        lane, lanes, r, length = find_row(rows, n)
        place = row_coords(r, inner)
        source, target = row_start(x_at, place), opaque(row_start(values_at, place))
        lowest = ZERO  # a minimum of negated magnitudes, which keeps a NaN
        for start in tiles(length, lanes):
            load(x, source, x_at.step, lane, lanes, start, length, words)
            for j in range(SIZE):
                lowest = minimum(lowest, -abs(value(words, j)))
        top = -block_min(lowest, scratch)
        by = ONE if top < SMALLEST else top / LARGEST
        inverse = ONE / by  # exact for a power of two, so that ties stay ties
        for start in tiles(length, lanes):
            if not HELD:
                load(x, source, x_at.step, lane, lanes, start, length, words)
            for j in range(SIZE):
                scaled[j] = value(words, j) * inverse
            convert(scaled, bits)
            store_bits(values, target, values_at.step, lane, lanes, start, length, bits)
        if lane == 0 and r < rows:
            store(scale, row_start(scale_at, place), by)

    return Source(quantize, pointees, tiling.threads, tiling.blocks, inputs=2)


@register("numba", "quantize_rows", "rows")
@plan_once()
def rows(v: RowView) -> BindView:
    """Lanes find the row's largest magnitude, then convert. A row that doesn't fit in registers is read again."""
    kernel = partial(quantize_kernel, hardware=v.device.capability >= 89)
    return bind_over_rows("numba/quantize_rows/rows", kernel, register_tiling(v), v)
