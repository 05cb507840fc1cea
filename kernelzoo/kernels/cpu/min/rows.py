"""One thread reduces a row, or a tile of rows side by side, in one pass, as a minimum of integers.

A float's bits are mapped to an unsigned integer, its *key*. Keys sort like the floats, with every NaN first. So NaN
can't be lost, and LLVM may vectorise without fast-math: an integer minimum can be reordered, a float one can't.
Integers and bool are their own keys. For a contiguous row, three reductions of plain bits replace the keys.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit, types

from kernelzoo.kernels.cpu.device_functions import select_code_by_type
from kernelzoo.kernels.cpu.launch import count_tasks, make_launch, move_lanes_last, parallel_kernel, vectorises_across
from kernelzoo.kernels.shared.host_memory import flat_array
from kernelzoo.launch import Launch
from kernelzoo.registry import register

# For each float: the unsigned integer of its width, and the distance from +inf to the largest NaN. Adding this distance
# to the keys makes positive NaNs wrap round to the smallest keys, where negative NaNs already are.
_FLOATS = {
    torch.float16: (torch.uint16, 0x7FFF - 0x7C00),
    torch.bfloat16: (torch.uint16, 0x7FFF - 0x7F80),
    torch.float32: (torch.uint32, 0x7FFFFFFF - 0x7F800000),
    torch.float64: (torch.uint64, 0x7FFFFFFFFFFFFFFF - 0x7FF0000000000000),
}

LANES = 1024
"""The most rows side by side: their minima, at most 8 kB, stay in the first-level cache while rows are streamed."""


def _word_types(bits: Any) -> tuple[Any, Any, int]:
    """Return the unsigned and signed integer types of a float's width, and the position of its sign bit."""
    return getattr(np, f"uint{bits.bitwidth}"), getattr(np, f"int{bits.bitwidth}"), bits.bitwidth - 1


def _holds_float_bits(bits: Any) -> bool:
    """Whether elements are a float's bits: unsigned integers, except uint8, which holds uint8 or bool elements."""
    return bits in (types.uint16, types.uint32, types.uint64)


@select_code_by_type()
def _element_to_key(bits, shift):
    """Return the integer that sorts as the element does: NaN first, then -inf to +inf."""
    if not _holds_float_bits(bits):
        return lambda bits, shift: bits
    unsigned, signed, sign_at = _word_types(bits)

    def key(bits, shift):
        # Negative: flip all bits, which reverses their order. Positive: set the sign bit, so that they sort above.
        flip = unsigned(signed(bits) >> signed(sign_at)) | unsigned(unsigned(1) << unsigned(sign_at))
        return unsigned(unsigned(bits ^ flip) + unsigned(shift))

    return key


@select_code_by_type()
def _key_to_element(key, shift):
    if not _holds_float_bits(key):
        return lambda key, shift: key
    unsigned, signed, sign_at = _word_types(key)

    def element(key, shift):
        ordered = unsigned(key - unsigned(shift))
        flip = unsigned(~(signed(ordered) >> signed(sign_at))) | unsigned(unsigned(1) << unsigned(sign_at))
        return unsigned(ordered ^ flip)

    return element


# Offsets are unsigned 64-bit: Numba compiles a signed index with a branch for negative ones, which stops LLVM from
# seeing that a row is contiguous.


@njit
def _row_min(x, start, step, n, shift):
    """Return the minimum of one row. A ``step`` of None means contiguous, and is compiled separately."""
    if step is None:
        return _contiguous_row_min(x, start, n, shift)
    least = _element_to_key(x[start], shift)
    for j in range(n):
        least = min(least, _element_to_key(x[start + j * np.uint64(step)], shift))
    return _key_to_element(least, shift)


@select_code_by_type()
def _contiguous_row_min(x, start, n, shift):
    if not _holds_float_bits(x.dtype) or x.dtype.bitwidth == 64:

        def least_of(x, start, n, shift):
            least = _element_to_key(x[start], shift)
            for j in range(n):
                least = min(least, _element_to_key(x[start + j], shift))
            return _key_to_element(least, shift)

        return least_of
    unsigned, signed, sign_at = _word_types(x.dtype)
    negative, largest = unsigned(1 << sign_at), (1 << sign_at) - 1

    def float_of(x, start, n, shift):
        # Three reductions of the plain bits are faster than one of keys, each of which takes four operations. For
        # float64 they are slower, because AVX2 has no 64-bit maximum.
        most = least = x[start]
        top = signed(most)
        for j in range(n):
            bits = x[start + j]
            most, least, top = max(most, bits), min(least, bits), max(top, signed(bits))
        if top > signed(largest - shift):  # a positive NaN; a negative one has the most bits of all
            return unsigned(top)
        return most if most >= negative else least

    return float_of


@parallel_kernel()
def _rows(x, out, shift, n, lanes, chunk, chunks, x_group, x_n, x_lane, out_group, out_chunk, out_lane, first, last):
    row, part = first // chunks, first % chunks
    group, lane = row // lanes, row % lanes
    x_chunk = chunk if x_n is None else chunk * x_n
    for _ in range(first, last):
        start = np.uint64(group * x_group + part * x_chunk + lane * x_lane)
        count = np.uint64(min(chunk, n - part * chunk))
        out[np.uint64(group * out_group + part * out_chunk + lane * out_lane)] = _row_min(x, start, x_n, count, shift)
        part += 1
        if part == chunks:
            part, lane = 0, lane + 1
            if lane == lanes:
                lane, group = 0, group + 1


@parallel_kernel()
def _columns(x, out, shift, n, lanes, chunk, chunks, x_group, x_n, x_lane, out_group, out_chunk, out_lane, first, last):
    tiles = (lanes - 1) // LANES + 1
    least = np.empty(min(lanes, LANES), x.dtype)
    for unit in range(first, last):
        tile, part, group = unit % tiles, unit // tiles % chunks, unit // (tiles * chunks)
        lane = tile * LANES
        width = np.uint64(min(LANES, lanes - lane))
        start = np.uint64(group * x_group + part * chunk * x_n + lane * x_lane)
        for i in range(width):
            least[i] = _element_to_key(x[start + i * np.uint64(x_lane)], shift)
        for j in range(np.uint64(1), np.uint64(min(chunk, n - part * chunk))):
            at = start + j * np.uint64(x_n)
            if x_lane == 1:
                for i in range(width):
                    least[i] = min(least[i], _element_to_key(x[at + i], shift))
            else:
                for i in range(width):
                    least[i] = min(least[i], _element_to_key(x[at + i * np.uint64(x_lane)], shift))
        to = np.uint64(group * out_group + part * out_chunk + lane * out_lane)
        for i in range(width):
            out[to + i * np.uint64(out_lane)] = _key_to_element(least[i], shift)


def choose_chunk_kernel(x: torch.Tensor, out: torch.Tensor, chunk: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """Return a kernel that writes minima of chunks of x's rows to out (groups, chunks, lanes), and its arguments."""
    groups, n, lanes = x.shape
    chunks = out.size(1)
    x_group, x_n, x_lane = x.stride()
    step: int | None = x_n
    if vectorises_across(x):
        kernel, units = _columns, groups * chunks * -(-lanes // LANES)
    else:
        kernel, units, step = _rows, groups * chunks * lanes, None if x_n == 1 else x_n
    dtype, shift = _FLOATS.get(x.dtype, (torch.uint8 if x.dtype == torch.bool else x.dtype, 0))
    shape = (n, lanes, chunk, chunks, x_group, step, x_lane, *out.stride())
    return kernel, (flat_array(x, dtype), flat_array(out, dtype), shift, *shape, units, count_tasks(units, x.numel()))


@register("cpu", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows: one thread reduces a row, or a tile of rows side by side, in one pass."""
    x, out = move_lanes_last(x, out)
    return make_launch((x, out), *choose_chunk_kernel(x, out.unsqueeze(1), x.size(1)))
