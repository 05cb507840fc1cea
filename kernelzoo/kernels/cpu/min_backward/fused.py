import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import empty, round_like, widen
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel, vectorises_across
from kernelzoo.kernels.cpu.tiles import choose_tile_lanes
from kernelzoo.launch import Launch
from kernelzoo.registry import register

BLOCK = 1 << 14
"""The number of elements to count in int32, as wide as a float32, before the count is added to an int64."""


@njit
def count_equal(x, at, step, n, least):
    """Return how many of n elements, at most 2^31, equal ``least``."""
    count = np.int32(0)
    if step == np.uint64(1):
        for j in range(n):
            count = np.int32(count + np.int32(widen(x[at + j]) == least))
    else:
        for j in range(n):
            count = np.int32(count + np.int32(widen(x[at + j * step]) == least))
    return count


@parallel_kernel(error_model="numpy")
def _rows(x, y, grad, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, og, on, ol, first, last):
    n, xn, on = np.uint64(n), np.uint64(xn), np.uint64(on)
    block, begin, one = np.uint64(BLOCK), np.uint64(0), np.uint64(1)
    real = empty(one, x).dtype.type
    group, lane = first // lanes, first % lanes
    for _ in range(first, last):
        at, to = np.uint64(group * xg + lane * xl), np.uint64(group * og + lane * ol)
        least = widen(y[np.uint64(group * yg + lane * yl)])
        slope = widen(grad[np.uint64(group * gg + lane * gl)])
        group, lane = (group, lane + 1) if lane + 1 < lanes else (group + 1, 0)
        count = np.int64(0)
        for j in range(begin, n, block):
            count += count_equal(x, at + j * xn, xn, min(block, n - j), least)
        share, rest = round_like(slope / real(count), out[to]), round_like(slope * real(0) / real(count), out[to])
        if xn == one and on == one:
            for j in range(n):
                out[to + j] = share if widen(x[at + j]) == least else rest
        else:
            for j in range(n):
                out[to + j * on] = share if widen(x[at + j * xn]) == least else rest


@njit
def _count_equal_lanes(x, at, lane, least, partial, width):
    if lane == np.uint64(1):
        for i in range(width):
            partial[i] = np.int32(partial[i] + np.int32(widen(x[at + i]) == least[i]))
    else:
        for i in range(width):
            partial[i] = np.int32(partial[i] + np.int32(widen(x[at + i * lane]) == least[i]))


@njit
def _write_gradients(x, at, xn, xl, out, to, on, ol, count, least, share, rest, width):
    """Write ``count`` results of each row of a tile, along the axis of out's smaller stride: across or along rows."""
    one = np.uint64(1)
    if on < ol:
        for i in range(width):
            for j in range(count):
                out[to + j * on + i * ol] = share[i] if widen(x[at + j * xn + i * xl]) == least[i] else rest[i]
        return
    for j in range(count):
        source, target = at + j * xn, to + j * on
        if xl == one and ol == one:
            for i in range(width):
                out[target + i] = share[i] if widen(x[source + i]) == least[i] else rest[i]
        else:
            for i in range(width):
                out[target + i * ol] = share[i] if widen(x[source + i * xl]) == least[i] else rest[i]


@parallel_kernel(error_model="numpy")
def _columns(x, y, grad, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, og, on, ol, pitch, first, last):
    tiles = (lanes - 1) // pitch + 1
    n, xn, on, xl, ol = np.uint64(n), np.uint64(xn), np.uint64(on), np.uint64(xl), np.uint64(ol)
    block, zero = np.uint64(BLOCK), np.uint64(0)
    least, share, rest = empty(pitch, x), np.empty(pitch, out.dtype), np.empty(pitch, out.dtype)
    partial, counts = np.empty(pitch, np.int32), np.empty(pitch, np.int64)
    real = least.dtype.type
    for unit in range(first, last):
        group, lane = unit // tiles, unit % tiles * pitch
        width = np.uint64(min(pitch, lanes - lane))
        at, to = np.uint64(group * xg) + np.uint64(lane) * xl, np.uint64(group * og) + np.uint64(lane) * ol
        for i in range(width):
            least[i] = widen(y[np.uint64(group * yg + (lane + np.int64(i)) * yl)])
        counts[:] = 0
        for begin in range(zero, n, block):
            partial[:] = 0
            for j in range(begin, min(begin + block, n)):
                _count_equal_lanes(x, at + j * xn, xl, least, partial, width)
            for i in range(width):
                counts[i] += partial[i]
        for i in range(width):
            slope, number = widen(grad[np.uint64(group * gg + (lane + np.int64(i)) * gl)]), real(counts[i])
            share[i], rest[i] = round_like(slope / number, out[to]), round_like(slope * real(0) / number, out[to])
        # In blocks, so that a tile written across its rows is read from the first-level cache.
        for j in range(zero, n, np.uint64(64)):
            count = min(np.uint64(64), n - j)
            _write_gradients(x, at + j * xn, xn, xl, out, to + j * on, on, ol, count, least, share, rest, width)


@register("cpu", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A row's minima, or those of each row of a tile, are counted. A second read from cache gives the result."""
    tensors = move_lanes_last(x, y, grad, out)
    groups, _, lanes = tensors[0].shape
    if not vectorises_across(tensors[0]):
        return bind_launch(_rows, tensors, groups * lanes)
    width = choose_tile_lanes(groups, lanes)
    return bind_launch(_columns, tensors, groups * -(-lanes // width), width)
