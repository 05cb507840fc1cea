"""Softmax in Numba: rows kept in cache, or read twice with a running maximum and sum.

LLVM vectorises these loops without fast-math. Only the sum along a row may be reordered ('reassoc'): its terms are
never negative, and a NaN stays one in any order. Only in the exponential may a product be fused with a sum
('contract'). The maximum is that of integers that sort as the floats do, and may pass a NaN by: the exponentials and
the sum still carry it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.parallel import flat, lanes_last, launcher, side_by_side, tasks
from kernelzoo.registry import Launch, register

# Half precisions come as integers of their width, one type each, and are widened to float32 by their bits.
_DTYPES = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.uint16,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}

BLOCK = 256
"""Elements exponentiated and summed at a time: 1 kB of float32, between prefetches of as much of the next row. With
four elements to a register and four registers in flight (SSE2, the least there is), each partial sum adds 16 terms, so
that its error stays within that of a pairwise sum of the row."""

LANES_BLOCK = 16
"""The same for rows side by side, where each lane adds its terms in turn."""

ONLINE_BLOCK = 4096
"""Elements between two looks at the running maximum in ``online``: 16 kB of float32, half of a first-level cache."""

ONLINE_LANES = 256
"""Most rows side by side in ``online``, which keeps LANES_BLOCK elements of each: 16 kB of float32."""

SLACK = 8.0
"""How far a maximum may outgrow the running reference before ``online`` rescales its sum: terms reach e^8, far from
overflow, and each rescaling shrinks what was rounded before by e^-8, so that errors can't add up over a long row."""

VECTOR = 64
"""Elements that LLVM takes at a time at its widest, four registers of 16 float32; what is left over goes one by one."""

CACHED = 1 << 22
"""Longest row that ``fused`` takes: 16 MB of float32, what a last-level cache holds. Longer ones are for ``online``."""

FUSED_ROW = 1 << 20
"""Longest row that ``auto`` gives to ``fused``. Measured: a tenth to a fifth ahead of online at 2^20, level at
2^22, where a smaller last-level cache than the 32 MB measured with would be full."""

FUSED_COLUMN = 1 << 13
"""The same for rows side by side: 16 lanes of 2^13 float32 fill TILE_BYTES. Measured: 0.85 of online's time at half the
length, 1.33 at twice."""

TILE_BYTES = 1 << 19
"""Size of a tile of rows side by side: half of a second-level cache of 1 MB; input and output stream past it."""

TILE_LANES = (16, 256)
"""Fewest and most rows in such a tile: from a cache line of float32 to where more made no difference."""


@register("cpu", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Fused while a row, or a tile of rows side by side, fits the cache; online beyond."""
    limit = FUSED_COLUMN if side_by_side(lanes_last(x, out)[0]) else FUSED_ROW
    return fused(x, out) if x.size(1) <= limit else online(x, out)


@register("cpu", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A row, or a tile of rows side by side, is read once and stays in cache until it is written; rows in parallel."""
    x, out = lanes_last(x, out)
    groups, n, lanes = x.shape
    if n > CACHED:
        raise UnsupportedProblemError("cpu/softmax/fused", f"rows of up to {CACHED} elements stay in cache, got {n}")
    if not side_by_side(x):
        return _launch(_fused_rows, x, out, groups * lanes)
    fewest, most = TILE_LANES
    width = min(lanes, most, max(fewest, TILE_BYTES // (n * max(4, x.element_size()))))
    return _launch(_fused_columns, x, out, groups * -(-lanes // width), width)


@register("cpu", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass keeps a running (maximum, sum) over blocks of a row, a second reads again and writes; rows in parallel.

    Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), arXiv:1805.02867.
    """
    x, out = lanes_last(x, out)
    groups, _, lanes = x.shape
    if not side_by_side(x):
        return _launch(_online_rows, x, out, groups * lanes)
    width = min(lanes, ONLINE_LANES)
    return _launch(_online_columns, x, out, groups * -(-lanes // width), width)


def _launch(kernel: Callable[..., None], x: torch.Tensor, out: torch.Tensor, units: int, *constants: int) -> Launch:
    dtype = _DTYPES[x.dtype]
    shape = (x.size(1), x.size(2), *x.stride(), *out.stride())
    return launcher((kernel, (flat(x, dtype), flat(out, dtype), *shape, *constants, units, tasks(units, x.numel()))))


# Bits and conversions


@intrinsic
def _bits(typing_context, value):
    """The bits of a float as a signed integer."""
    integer = types.Integer.from_bitwidth(value.bitwidth, True)

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(integer))

    return integer(value), generate


@intrinsic
def _float(typing_context, bits):
    """The float of those bits."""
    real = {32: types.float32, 64: types.float64}[bits.bitwidth]

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(real))

    return real(bits), generate


def _wide(element: Any) -> Any:
    """An element as the float that it is accumulated in."""
    raise NotImplementedError("compiled only")


@overload(_wide)
def _wide_of(element):
    if element == types.uint16:  # bfloat16: the upper half of a float32
        return lambda element: _float(np.int32(np.uint32(element) << np.uint32(16)))
    if element == types.int16:
        return _from_half
    return lambda element: element


def _from_half(element):
    """float16 to float32 without a conversion instruction, which not every processor has; LLVM vectorises this."""
    sign = np.int32((np.int32(element) & np.int32(0x8000)) << np.int32(16))
    magnitude = np.int32((np.int32(element) & np.int32(0x7FFF)) << np.int32(13))
    rebias = np.int32(112 << 23)
    if magnitude >= np.int32(0x7C00 << 13):  # infinity and NaN: the largest exponent here too
        wide = np.int32(magnitude + np.int32(2 * rebias))
    else:
        wide = np.int32(magnitude + rebias)
    # Zero and subnormals: as a normal number with one more bit in front, which is then taken off.
    small = _bits(np.float32(_float(np.int32(magnitude + np.int32(113 << 23))) - np.float32(2.0**-14)))
    return _float(np.int32((small if magnitude < np.int32(1 << 23) else wide) | sign))


def _narrow(value: Any, like: Any) -> Any:
    """A probability (or NaN) rounded to nearest, ties to even, to an element of ``like``'s type."""
    raise NotImplementedError("compiled only")


@overload(_narrow)
def _narrow_of(value, like):
    if like == types.uint16:
        return _to_bfloat16
    if like == types.int16:
        return _to_half
    return lambda value, like: value


def _to_bfloat16(value, like):
    bits = _bits(value)
    odd = np.int32((bits >> np.int32(16)) & np.int32(1))
    rounded = np.int32(np.int32(bits + np.int32(0x7FFF) + odd) >> np.int32(16))
    return np.uint16(np.int32(0x7FC0) if value != value else rounded)


def _to_half(value, like):
    bits = _bits(value)
    odd = np.int32((bits >> np.int32(13)) & np.int32(1))
    normal = np.int32(np.int32(bits - np.int32(112 << 23) + np.int32(0xFFF) + odd) >> np.int32(13))
    # Below 2^-14 the spacing is 2^-24, that of float32 from 1/2 to 1: adding 1/2 rounds to it.
    small = np.int32(_bits(np.float32(value + np.float32(0.5))) - np.int32(126 << 23))
    rounded = small if value < np.float32(2.0**-14) else normal
    return np.int16(np.int32(0x7E00) if value != value else rounded)


# The exponential


def _exp(t: Any) -> Any:
    """e^t for t up to 88, flushed to zero below the smallest normal number; NaN for NaN. Within 3 units of roundoff.

    t = k ln 2 + r with an integer k, so e^t = 2^k e^r and |r| <= ln(2)/2, where the Taylor series is short. Adding 1.5
    times 2^(bits of the fraction) rounds to the integer k and leaves it in the low bits, whence it moves to the
    exponent. ln 2 comes in two parts, the first short enough for k times it to be exact.
    """
    raise NotImplementedError("compiled only")


@overload(_exp, jit_options={"fastmath": {"contract"}})
def _exp_of(t):
    real, integer, fraction = (np.float32, np.int32, 23) if t == types.float32 else (np.float64, np.int64, 52)
    bias = integer(np.finfo(real).maxexp - 1)
    lowest = real(np.finfo(real).minexp * np.log(2.0))
    round_to_integer = real(1.5 * 2.0**fraction)
    log2_e = real(1 / np.log(2.0))
    ln2_high = real(0.693359375) if real is np.float32 else real(0.6931471803691238)
    ln2_low = real(-2.12194440054690583e-4) if real is np.float32 else real(1.9082149292705877e-10)
    shift = integer(fraction)
    one, zero = real(1), real(0)
    c2, c3, c4, c5, c6, c7 = (real(1 / k) for k in (2, 6, 24, 120, 720, 5040))

    if real is np.float32:

        def exp(t):
            shifted = t * log2_e + round_to_integer
            k = shifted - round_to_integer
            r = t - k * ln2_high - k * ln2_low
            p = c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * c7))))
            power = _float(integer(integer(_bits(shifted) + bias) << shift))
            return zero if t < lowest else (one + (r + r * r * p)) * power

    else:
        c8, c9, c10, c11, c12, c13 = (real(1 / k) for k in (40320, 362880, 3628800, 39916800, 479001600, 6227020800))

        def exp(t):
            shifted = t * log2_e + round_to_integer
            k = shifted - round_to_integer
            r = t - k * ln2_high - k * ln2_low
            p = c8 + r * (c9 + r * (c10 + r * (c11 + r * (c12 + r * c13))))
            p = c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * (c7 + r * p)))))
            power = _float(integer(integer(_bits(shifted) + bias) << shift))
            return zero if t < lowest else (one + (r + r * r * p)) * power

    return exp


# Small pieces


def _ordered(bits: Any) -> Any:
    """The integer that sorts as the float of those bits does, and back again: it is its own inverse."""
    raise NotImplementedError("compiled only")


@overload(_ordered)
def _ordered_of(bits):
    integer = getattr(np, f"int{bits.bitwidth}")
    sign_at, magnitude = integer(bits.bitwidth - 1), integer(np.iinfo(integer).max)
    return lambda bits: integer(bits ^ ((bits >> sign_at) & magnitude))


def _empty(count: Any, x: Any) -> Any:
    """An array of the float that x's elements are accumulated in."""
    raise NotImplementedError("compiled only")


@overload(_empty)
def _empty_of(count, x):
    real = np.float64 if x.dtype == types.float64 else np.float32
    return lambda count, x: np.empty(count, real)


def _same_type(array: Any, like: Any) -> Any:
    """``array`` where it is of ``like``'s type, ``like`` otherwise: the compiler is to see one type only."""
    raise NotImplementedError("compiled only")


@overload(_same_type)
def _same_type_of(array, like):
    return (lambda array, like: array) if array == like else (lambda array, like: like)


@njit
def _two_sum(total, carry, term):
    """The rounded sum of all three, and what it rounded off (Knuth, TAOCP 2, 4.2.2)."""
    new = total + term
    back = new - total
    return new, carry + ((total - (new - back)) + (term - back))


@intrinsic
def _prefetch_line(typing_context, x, at):
    """Ask for the cache line of x[at]; an address past the end does no harm."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, word, word, word]), "llvm.prefetch.p0"
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        builder.call(prefetch, [address, word(0), word(3), word(1)])  # to read, into every level, data
        return context.get_dummy_value()

    return types.void(x, at), generate


# Rows one by one. Offsets are unsigned 64-bit: Numba compiles a signed index with a branch for negative ones, which
# stops LLVM from seeing that a row is contiguous.


@njit
def _top(x, start, step, n):
    """The maximum of n elements as an ordered integer; it may pass a NaN by, or be one."""
    top = _ordered(_bits(_wide(x[start])))
    if step == np.uint64(1):
        for j in range(n):
            top = max(top, _ordered(_bits(_wide(x[start + j]))))
    else:
        for j in range(n):
            top = max(top, _ordered(_bits(_wide(x[start + j * step]))))
    return top


@njit
def _exponentiate(x, start, step, n, top, row, to):
    """Write the exponentials of n elements of x, less their row's maximum, to row[to:]; return their sum.

    The sum has a loop of its own. In the first LLVM takes the vectorised form or, where it can't prove x and row apart
    (a temporary that happens to lie near the input), the plain one; adding there would add in another order, and give
    other bits by where memory was allocated.
    """
    if step == np.uint64(1):
        for j in range(n):
            row[to + j] = _exp(_wide(x[start + j]) - top)
    else:
        for j in range(n):
            row[to + j] = _exp(_wide(x[start + j * step]) - top)
    return _sum(row, to, n)


@njit(fastmath={"reassoc"})
def _sum(row, start, n):
    """The sum of n elements of row[start:], none negative, in an order that n alone decides."""
    total = row.dtype.type(0)
    for j in range(n):
        total += row[start + j]
    return total


@njit(fastmath={"reassoc"})
def _exponentiate_edge(edge, top):
    """Replace VECTOR elements by their exponentials, return their sum."""
    total = edge.dtype.type(0)
    for j in range(np.uint64(VECTOR)):
        value = _exp(edge[j] - top)
        edge[j] = value
        total += value
    return total


@njit
def _scale(row, start, scale, n, out, to, step):
    """Write n elements of row[start:], scaled, to out[to], out[to + step] and so on."""
    if step == np.uint64(1):
        for j in range(n):
            out[to + j] = _narrow(row[start + j] * scale, out[to])
    else:
        for j in range(n):
            out[to + j * step] = _narrow(row[start + j] * scale, out[to])


@njit
def _prefetch(x, at, count):
    for j in range(np.uint64(0), count, np.uint64(64 // x.itemsize)):
        _prefetch_line(x, at + j)


@compiled(error_model="numpy")
def _fused_rows_task(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, first, last):
    n, x_n, out_n = np.uint64(n), np.uint64(x_n), np.uint64(out_n)
    block, zero, one = np.uint64(BLOCK), np.uint64(0), np.uint64(1)
    # The end of a row that fills no whole vector goes through a small array, padded with -inf, whose exponential is 0.
    width = np.uint64(VECTOR)
    whole, tail = n // width * width, n % width
    edge = _empty(width, x)
    # Exponentials wait for their sum in the output's own row, where it is contiguous and wide enough. A buffer at some
    # other address costs up to twice the time: loads wait for earlier stores whose addresses agree in the low 12 bits.
    in_place = out_n == one and out.dtype == edge.dtype
    buffer = _empty(one if in_place else n, x)
    row = _same_type(out, buffer) if in_place else buffer
    group, lane = first // lanes, first % lanes
    for _ in range(first, last):
        start = np.uint64(group * x_group + lane * x_lane)
        to = np.uint64(group * out_group + lane * out_lane)
        group, lane = (group, lane + 1) if lane + 1 < lanes else (group + 1, 0)
        following = np.uint64(group * x_group + lane * x_lane)
        base = to if in_place else zero
        top = _float(_ordered(_top(x, start, x_n, n)))
        total = carry = row.dtype.type(0)
        for begin in range(zero, whole, block):
            count = min(block, whole - begin)
            if x_n == one:
                # Memory would stand idle while exponentials are computed: let it fetch the next row.
                _prefetch(x, following + begin, count)
            term = _exponentiate(x, start + begin * x_n, x_n, count, top, row, base + begin)
            total, carry = _two_sum(total, carry, term)
        if tail:
            for j in range(tail):
                edge[j] = _wide(x[start + (whole + j) * x_n])
            edge[tail:] = -np.inf
            total, carry = _two_sum(total, carry, _exponentiate_edge(edge, top))
            for j in range(tail):
                row[base + whole + j] = edge[j]
        scale = row.dtype.type(1) / (total + carry)
        if in_place:  # apart, for LLVM vectorises the general form only where input and output don't overlap
            for j in range(to, to + n):
                row[j] *= scale
        else:
            _scale(row, base, scale, n, out, to, out_n)


@compiled(error_model="numpy")
def _online_rows_task(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, first, last):
    n, x_n, out_n = np.uint64(n), np.uint64(x_n), np.uint64(out_n)
    long_block, block, zero, one = np.uint64(ONLINE_BLOCK), np.uint64(BLOCK), np.uint64(0), np.uint64(1)
    row = _empty(block, x)
    group, lane = first // lanes, first % lanes
    for _ in range(first, last):
        start = np.uint64(group * x_group + lane * x_lane)
        to = np.uint64(group * out_group + lane * out_lane)
        group, lane = (group, lane + 1) if lane + 1 < lanes else (group + 1, 0)
        reference = row.dtype.type(-np.inf)
        total = carry = row.dtype.type(0)
        for at in range(zero, n, long_block):
            length = min(long_block, n - at)
            top = _float(_ordered(_top(x, start + at * x_n, x_n, length)))
            if top > reference + row.dtype.type(SLACK):
                factor = _exp(reference - top)
                total, carry, reference = total * factor, carry * factor, top
            for begin in range(at, at + length, block):
                count = min(block, at + length - begin)
                term = _exponentiate(x, start + begin * x_n, x_n, count, _finite(reference), row, zero)
                total, carry = _two_sum(total, carry, term)
        scale, top = row.dtype.type(1) / (total + carry), _finite(reference)
        if x_n == one and out_n == one:
            for j in range(n):
                out[to + j] = _narrow(_exp(_wide(x[start + j]) - top) * scale, out[to])
        else:
            for j in range(n):
                out[to + j * out_n] = _narrow(_exp(_wide(x[start + j * x_n]) - top) * scale, out[to])


@njit
def _finite(reference):
    """The reference to subtract: 0 while all is -inf, for exp(-inf - 0) is the 0 that exp(-inf - -inf) is not."""
    return type(reference)(0) if reference == -np.inf else reference


# Rows side by side: lane i of every array is a row of its own, so a loop over lanes adds nothing across them.


@njit
def _add_lanes(total, carry, partial, width):
    for i in range(width):
        total[i], carry[i] = _two_sum(total[i], carry[i], partial[i])


@njit
def _load_lanes(x, start, begin, count, x_n, x_lane, tile, pitch, top, width):
    """Widen rows' elements begin to begin + count into the tile [count, pitch], and raise ``top`` to their maxima.

    A NaN is not above anything, so ``top`` passes it by.
    """
    if x_n < x_lane:
        for i in range(width):
            highest = top[i]
            for j in range(count):
                value = _wide(x[start + (begin + j) * x_n + i * x_lane])
                tile[j * pitch + i] = value
                highest = value if value > highest else highest
            top[i] = highest
        return
    for j in range(count):
        at, to = start + (begin + j) * x_n, j * pitch
        if x_lane == np.uint64(1):
            for i in range(width):
                value = _wide(x[at + i])
                tile[to + i] = value
                top[i] = value if value > top[i] else top[i]
        else:
            for i in range(width):
                value = _wide(x[at + i * x_lane])
                tile[to + i] = value
                top[i] = value if value > top[i] else top[i]


@njit
def _exponentiate_lanes(tile, begin, end, pitch, top, partial, width):
    """Replace the tile's elements begin to end of each row by their exponentials, whose sums go to ``partial``."""
    for i in range(width):
        partial[i] = 0
    for j in range(begin, end):
        at = j * pitch
        for i in range(width):
            value = _exp(tile[at + i] - top[i])
            tile[at + i] = value
            partial[i] += value


@njit
def _store_lanes(tile, begin, end, pitch, scale, out, to, out_n, out_lane, width):
    """Write the tile's elements begin to end of each row, scaled; ``to`` is where element 0 of lane 0 goes."""
    if out_n < out_lane:
        for i in range(width):
            at = to + i * out_lane
            if out_n == np.uint64(1):
                for j in range(begin, end):
                    out[at + j] = _narrow(tile[j * pitch + i] * scale[i], out[to])
            else:
                for j in range(begin, end):
                    out[at + j * out_n] = _narrow(tile[j * pitch + i] * scale[i], out[to])
        return
    for j in range(begin, end):
        at = to + j * out_n
        if out_lane == np.uint64(1):
            for i in range(width):
                out[at + i] = _narrow(tile[j * pitch + i] * scale[i], out[to])
        else:
            for i in range(width):
                out[at + i * out_lane] = _narrow(tile[j * pitch + i] * scale[i], out[to])


@compiled(error_model="numpy")
def _fused_columns_task(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, pitch, first, last):
    tiles = (lanes - 1) // pitch + 1
    n, x_n, out_n, pitch = np.uint64(n), np.uint64(x_n), np.uint64(out_n), np.uint64(pitch)
    block, zero = np.uint64(LANES_BLOCK), np.uint64(0)
    tile = _empty(n * pitch, x)
    top, total, carry, partial = _empty(pitch, x), _empty(pitch, x), _empty(pitch, x), _empty(pitch, x)
    for unit in range(first, last):
        lane = unit % tiles * np.int64(pitch)
        width = np.uint64(min(np.int64(pitch), lanes - lane))
        start = np.uint64(unit // tiles * x_group + lane * x_lane)
        to = np.uint64(unit // tiles * out_group + lane * out_lane)
        top[:], total[:], carry[:] = -np.inf, 0, 0
        _load_lanes(x, start, zero, n, x_n, np.uint64(x_lane), tile, pitch, top, width)
        for begin in range(zero, n, block):
            _exponentiate_lanes(tile, begin, min(begin + block, n), pitch, top, partial, width)
            _add_lanes(total, carry, partial, width)
        for i in range(width):
            total[i] = 1 / (total[i] + carry[i])
        # In blocks, so that a tile written across its rows is read from the first-level cache.
        for begin in range(zero, n, np.uint64(64)):
            end = min(begin + np.uint64(64), n)
            _store_lanes(tile, begin, end, pitch, total, out, to, out_n, np.uint64(out_lane), width)


@compiled(error_model="numpy")
def _online_columns_task(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, pitch, first, last):
    tiles = (lanes - 1) // pitch + 1
    n, x_n, out_n, pitch = np.uint64(n), np.uint64(x_n), np.uint64(out_n), np.uint64(pitch)
    block, zero = np.uint64(LANES_BLOCK), np.uint64(0)
    tile, top, reference, offset = _empty(block * pitch, x), _empty(pitch, x), _empty(pitch, x), _empty(pitch, x)
    total, carry, partial = _empty(pitch, x), _empty(pitch, x), _empty(pitch, x)
    slack = tile.dtype.type(SLACK)
    for unit in range(first, last):
        lane = unit % tiles * np.int64(pitch)
        width = np.uint64(min(np.int64(pitch), lanes - lane))
        start = np.uint64(unit // tiles * x_group + lane * x_lane)
        to = np.uint64(unit // tiles * out_group + lane * out_lane)
        reference[:], total[:], carry[:] = -np.inf, 0, 0
        for begin in range(zero, n, block):
            count = min(block, n - begin)
            top[:] = -np.inf
            _load_lanes(x, start, begin, count, x_n, np.uint64(x_lane), tile, pitch, top, width)
            for i in range(width):
                raised = top[i] if top[i] > reference[i] + slack else reference[i]
                offset[i] = _finite(raised)
                factor = _exp(reference[i] - offset[i])
                reference[i] = raised
                total[i] *= factor
                carry[i] *= factor
            _exponentiate_lanes(tile, zero, count, pitch, offset, partial, width)
            _add_lanes(total, carry, partial, width)
        for i in range(width):
            total[i] = 1 / (total[i] + carry[i])
        for begin in range(zero, n, block):
            count = min(block, n - begin)
            _load_lanes(x, start, begin, count, x_n, np.uint64(x_lane), tile, pitch, top, width)
            _exponentiate_lanes(tile, zero, count, pitch, offset, partial, width)
            _store_lanes(tile, zero, count, pitch, total, out, to + begin * out_n, out_n, np.uint64(out_lane), width)


# The parallel loops. One task runs on the caller, without waking the other threads.


@compiled(parallel=True)
def _fused_rows(x, out, n, lanes, xg, xn, xl, og, on, ol, units, tasks):
    if tasks == 1:
        _fused_rows_task(x, out, n, lanes, xg, xn, xl, og, on, ol, 0, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _fused_rows_task(x, out, n, lanes, xg, xn, xl, og, on, ol, begin, end)


@compiled(parallel=True)
def _fused_columns(x, out, n, lanes, xg, xn, xl, og, on, ol, pitch, units, tasks):
    if tasks == 1:
        _fused_columns_task(x, out, n, lanes, xg, xn, xl, og, on, ol, pitch, 0, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _fused_columns_task(x, out, n, lanes, xg, xn, xl, og, on, ol, pitch, begin, end)


@compiled(parallel=True)
def _online_rows(x, out, n, lanes, xg, xn, xl, og, on, ol, units, tasks):
    if tasks == 1:
        _online_rows_task(x, out, n, lanes, xg, xn, xl, og, on, ol, 0, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _online_rows_task(x, out, n, lanes, xg, xn, xl, og, on, ol, begin, end)


@compiled(parallel=True)
def _online_columns(x, out, n, lanes, xg, xn, xl, og, on, ol, pitch, units, tasks):
    if tasks == 1:
        _online_columns_task(x, out, n, lanes, xg, xn, xl, og, on, ol, pitch, 0, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _online_columns_task(x, out, n, lanes, xg, xn, xl, og, on, ol, pitch, begin, end)
