"""Lanes go along a row: they find its absolute maximum, and read it again to write."""

import math
from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import machine, minimum
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import block_reduce, row_coords, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.registry import register

FLOAT, (ZERO, ONE, WHOLE) = WIDE["float32"], (number("float32", value) for value in (0, 1, 2**23))
LARGEST, SMALLEST, NORMAL = (number("float32", value) for value in (TOP, LEAST, 2**-6))


@cuda.jit(device=True, inline="always")
def to_float8(v):
    """The bits of the nearest float8_e4m3fn, to even between two, of a number below 464 in size or a NaN."""
    if v != v:
        return types.int32(0x7F)
    _, exponent = math.frexp(v)
    if abs(v) < NORMAL:  # all of those have the unit of the next larger ones
        exponent = types.int32(-5)
    units = (
        FLOAT(math.ldexp(abs(v), types.int32(4 - exponent))) + WHOLE - WHOLE
    )  # which rounds to a whole number, 16 at most
    bits = types.int32(8 * (exponent + 5)) + types.int32(units)
    return bits + types.int32(0x80) if v < ZERO else bits


@cache
def quantize_kernel(dtype: str, tiling: Tiling) -> Source:
    load, _ = machine.element_functions(dtype)
    _, store = machine.element_functions("float32")
    _, store_bits = machine.element_functions("uint8")
    _, block_min, _ = block_reduce(tiling, ZERO)
    mapping, ROWS, SCRATCH = thread_mapping(tiling), tiling.rows, tiling.scratch

    def quantize(
        x, values, scale, rows, inner, n, x_outer, x_step, x_inner, scale_outer, scale_step, scale_inner, phase,
        values_outer, values_step, values_inner,
    ):  # fmt: skip
        scratch = cuda.shared.array(SCRATCH, FLOAT)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        length = n if r < rows else types.int64(0)
        outer, place = row_coords(r, inner)
        source, target = outer * x_outer + place * x_inner, outer * values_outer + place * values_inner
        lowest = ZERO  # of negated sizes: a minimum, which keeps a NaN
        for i in range(lane, length, lanes):
            lowest = minimum(lowest, -abs(load(x, source + i * x_step)))
        top = -block_min(lowest, scratch)
        by = ONE if top < SMALLEST else top / LARGEST
        for i in range(lane, length, lanes):
            store_bits(values, target + i * values_step, to_float8(load(x, source + i * x_step) / by))
        if lane == 0 and r < rows:
            store(scale, outer * scale_outer + place * scale_inner, by)

    return Source(quantize, (dtype, "uint8", "float32"), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "quantize_rows", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """The absolute maximum in each lane; then a row is read again, from cache, and written in 8 bits."""
    return over_rows("numba/quantize_rows/rows", quantize_kernel, lanes_tiling(v), v, device)
