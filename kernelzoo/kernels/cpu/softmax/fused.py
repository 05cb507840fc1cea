import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cpu.device_functions import (
    array_if_same_type,
    as_float,
    as_sortable,
    empty,
    exponential,
    round_like,
    two_sum,
    widen,
)
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel, vectorises_across
from kernelzoo.kernels.cpu.softmax.lanes import LANES_BLOCK, add_lane_sums, exponentiate_lanes, load_lanes, store_lanes
from kernelzoo.kernels.cpu.softmax.rows import BLOCK, exponentiate, row_maximum
from kernelzoo.launch import Launch
from kernelzoo.registry import register

VECTOR = 64
"""The most elements that LLVM processes at a time: four registers of 16 float32. It processes the rest one by one."""

CACHED = 1 << 22
"""The longest row that ``fused`` takes: 16 MB of float32 fit in a last-level cache. ``online`` takes longer ones."""

TILE_BYTES = 1 << 19
"""Size of a tile of rows side by side: half of a 1 MB L2 cache, through which input and output stream as well."""

TILE_LANES = (16, 256)
"""The fewest and most rows in such a tile: a cache line of float32, and a number above which no gain was seen."""


@intrinsic
def prefetch_line(typing_context, x, at):
    """Prefetch the cache line of x[at]. An address past the end does no harm."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, word, word, word]), "llvm.prefetch.p0"
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        builder.call(prefetch, [address, word(0), word(3), word(1)])  # to read; keep in every cache level; data
        return context.get_dummy_value()

    return types.void(x, at), generate


@njit(fastmath={"reassoc"})
def _exponentiate_vector(edge, top):
    """Replace each of VECTOR elements by exp(element - top), and return the sum."""
    total = edge.dtype.type(0)
    for j in range(np.uint64(VECTOR)):
        value = exponential(edge[j] - top)
        edge[j] = value
        total += value
    return total


@njit
def _write_scaled(row, start, scale, n, out, to, step):
    """Write n elements of row[start:], times ``scale``, to out[to], out[to + step] and so on."""
    if step == np.uint64(1):
        for j in range(n):
            out[to + j] = round_like(row[start + j] * scale, out[to])
    else:
        for j in range(n):
            out[to + j * step] = round_like(row[start + j] * scale, out[to])


@njit
def _prefetch_elements(x, start, count):
    for j in range(np.uint64(0), count, np.uint64(64 // x.itemsize)):
        prefetch_line(x, start + j)


@parallel_kernel(error_model="numpy")
def _fused_rows(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, first, last):
    n, x_n, out_n = np.uint64(n), np.uint64(x_n), np.uint64(out_n)
    block, zero, one = np.uint64(BLOCK), np.uint64(0), np.uint64(1)
    # The end of a row, less than a vector, goes through a small array padded with -inf, whose exponential is 0.
    width = np.uint64(VECTOR)
    whole, tail = n // width * width, n % width
    edge = empty(width, x)
    # Exponentials stay in the output's row until their sum is known, if it is contiguous and of their dtype. A separate
    # buffer costs up to twice the time: loads wait for earlier stores whose addresses agree in the low 12 bits.
    in_place = out_n == one and out.dtype == edge.dtype
    buffer = empty(one if in_place else n, x)
    row = array_if_same_type(out, buffer) if in_place else buffer
    group, lane = first // lanes, first % lanes
    for _ in range(first, last):
        start = np.uint64(group * x_group + lane * x_lane)
        to = np.uint64(group * out_group + lane * out_lane)
        group, lane = (group, lane + 1) if lane + 1 < lanes else (group + 1, 0)
        following = np.uint64(group * x_group + lane * x_lane)
        base = to if in_place else zero
        top = as_float(as_sortable(row_maximum(x, start, x_n, n)))
        total = carry = row.dtype.type(0)
        for begin in range(zero, whole, block):
            count = min(block, whole - begin)
            if x_n == one:
                # Memory would be idle while exponentials are computed, so prefetch the next row.
                _prefetch_elements(x, following + begin, count)
            term = exponentiate(x, start + begin * x_n, x_n, count, top, row, base + begin)
            total, carry = two_sum(total, carry, term)
        if tail:
            for j in range(tail):
                edge[j] = widen(x[start + (whole + j) * x_n])
            edge[tail:] = -np.inf
            total, carry = two_sum(total, carry, _exponentiate_vector(edge, top))
            for j in range(tail):
                row[base + whole + j] = edge[j]
        scale = row.dtype.type(1) / (total + carry)
        if in_place:  # LLVM vectorises the general loop only if input and output don't overlap
            for j in range(to, to + n):
                row[j] *= scale
        else:
            _write_scaled(row, base, scale, n, out, to, out_n)


@parallel_kernel(error_model="numpy")
def _fused_columns(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, pitch, first, last):
    tiles = (lanes - 1) // pitch + 1
    n, x_n, out_n, pitch = np.uint64(n), np.uint64(x_n), np.uint64(out_n), np.uint64(pitch)
    block, zero = np.uint64(LANES_BLOCK), np.uint64(0)
    tile = empty(n * pitch, x)
    top, total, carry, partial = empty(pitch, x), empty(pitch, x), empty(pitch, x), empty(pitch, x)
    for unit in range(first, last):
        lane = unit % tiles * np.int64(pitch)
        width = np.uint64(min(np.int64(pitch), lanes - lane))
        start = np.uint64(unit // tiles * x_group + lane * x_lane)
        to = np.uint64(unit // tiles * out_group + lane * out_lane)
        top[:], total[:], carry[:] = -np.inf, 0, 0
        load_lanes(x, start, zero, n, x_n, np.uint64(x_lane), tile, pitch, top, width)
        for begin in range(zero, n, block):
            exponentiate_lanes(tile, begin, min(begin + block, n), pitch, top, partial, width)
            add_lane_sums(total, carry, partial, width)
        for i in range(width):
            total[i] = 1 / (total[i] + carry[i])
        # In blocks, so that a tile written across its rows is read from the first-level cache.
        for begin in range(zero, n, np.uint64(64)):
            end = min(begin + np.uint64(64), n)
            store_lanes(tile, begin, end, pitch, total, out, to, out_n, np.uint64(out_lane), width)


@register("cpu", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A row, or a tile of rows side by side, is read once, and stays in cache until written. Rows run in parallel."""
    x, out = move_lanes_last(x, out)
    groups, n, lanes = x.shape
    if n > CACHED:
        raise UnsupportedProblemError("cpu/softmax/fused", f"rows of up to {CACHED} elements stay in cache, got {n}")
    if not vectorises_across(x):
        return bind_launch(_fused_rows, (x, out), groups * lanes)
    fewest, most = TILE_LANES
    width = min(lanes, most, max(fewest, TILE_BYTES // (n * max(4, x.element_size()))))
    return bind_launch(_fused_columns, (x, out), groups * -(-lanes // width), width)
