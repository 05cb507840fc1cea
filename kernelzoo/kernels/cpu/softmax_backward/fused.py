import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import add_carry, empty, round_like, two_sum, widen
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel, vectorises_across
from kernelzoo.kernels.cpu.softmax.lanes import LANES_BLOCK, add_lane_sums
from kernelzoo.kernels.cpu.sum.rows import block_length
from kernelzoo.kernels.cpu.tiles import choose_tile_lanes
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit(fastmath={"reassoc"})
def sum_of_products(grad, at, grad_step, y, y_at, y_step, n, zero):
    """Return the sum of n products grad * y, in an order that depends only on n and the strides."""
    total = zero
    if grad_step == np.uint64(1) and y_step == np.uint64(1):
        for j in range(n):
            total += widen(grad[at + j]) * widen(y[y_at + j])
    else:
        for j in range(n):
            total += widen(grad[at + j * grad_step]) * widen(y[y_at + j * y_step])
    return total


@njit
def softmax_gradient(y, grad, total, like):
    return round_like(widen(y) * (widen(grad) - total), like)


@parallel_kernel()
def _rows(grad, y, out, n, lanes, gg, gn, gl, yg, yn, yl, og, on, ol, first, last):
    n, gn, yn, on = np.uint64(n), np.uint64(gn), np.uint64(yn), np.uint64(on)
    block, begin, one = block_length(gn, yn), np.uint64(0), np.uint64(1)
    zero = empty(one, grad).dtype.type(0)
    group, lane = first // lanes, first % lanes
    for _ in range(first, last):
        at, y_at = np.uint64(group * gg + lane * gl), np.uint64(group * yg + lane * yl)
        to = np.uint64(group * og + lane * ol)
        group, lane = (group, lane + 1) if lane + 1 < lanes else (group + 1, 0)
        total = carry = zero
        for j in range(begin, n, block):
            count = min(block, n - j)
            term = sum_of_products(grad, at + j * gn, gn, y, y_at + j * yn, yn, count, zero)
            total, carry = two_sum(total, carry, term)
        total = add_carry(total, carry)
        if gn == one and yn == one and on == one:
            for j in range(n):
                out[to + j] = softmax_gradient(y[y_at + j], grad[at + j], total, out[to])
        else:
            for j in range(n):
                out[to + j * on] = softmax_gradient(y[y_at + j * yn], grad[at + j * gn], total, out[to])


@njit
def _add_products(grad, at, grad_lane, y, y_at, y_lane, partial, width):
    one = np.uint64(1)
    if grad_lane == one and y_lane == one:
        for i in range(width):
            partial[i] += widen(grad[at + i]) * widen(y[y_at + i])
    else:
        for i in range(width):
            partial[i] += widen(grad[at + i * grad_lane]) * widen(y[y_at + i * y_lane])


@njit
def _write(grad, at, gn, gl, y, y_at, yn, yl, out, to, on, ol, count, total, width):
    """Write ``count`` results of each row of a tile, along the axis of out's smaller stride: across or along rows."""
    one = np.uint64(1)
    if on < ol:
        for i in range(width):
            for j in range(count):
                value = softmax_gradient(y[y_at + j * yn + i * yl], grad[at + j * gn + i * gl], total[i], out[to])
                out[to + j * on + i * ol] = value
        return
    for j in range(count):
        g, p, o = at + j * gn, y_at + j * yn, to + j * on
        if gl == one and yl == one and ol == one:
            for i in range(width):
                out[o + i] = softmax_gradient(y[p + i], grad[g + i], total[i], out[to])
        else:
            for i in range(width):
                out[o + i * ol] = softmax_gradient(y[p + i * yl], grad[g + i * gl], total[i], out[to])


@parallel_kernel()
def _columns(grad, y, out, n, lanes, gg, gn, gl, yg, yn, yl, og, on, ol, pitch, first, last):
    tiles = (lanes - 1) // pitch + 1
    n, gn, yn, on = np.uint64(n), np.uint64(gn), np.uint64(yn), np.uint64(on)
    gl, yl, ol = np.uint64(gl), np.uint64(yl), np.uint64(ol)
    block, zero = np.uint64(LANES_BLOCK), np.uint64(0)
    total, carry, partial = empty(pitch, grad), empty(pitch, grad), empty(pitch, grad)
    for unit in range(first, last):
        group, lane = unit // tiles, unit % tiles * pitch
        width = np.uint64(min(pitch, lanes - lane))
        at, y_at = np.uint64(group * gg) + np.uint64(lane) * gl, np.uint64(group * yg) + np.uint64(lane) * yl
        to = np.uint64(group * og) + np.uint64(lane) * ol
        total[:], carry[:] = 0, 0
        for begin in range(zero, n, block):
            partial[:] = 0
            for j in range(begin, min(begin + block, n)):
                _add_products(grad, at + j * gn, gl, y, y_at + j * yn, yl, partial, width)
            add_lane_sums(total, carry, partial, width)
        for i in range(width):
            total[i] = add_carry(total[i], carry[i])
        # In blocks, so that a tile written across its rows is read from the first-level cache.
        for j in range(zero, n, np.uint64(64)):
            count = min(np.uint64(64), n - j)
            _write(grad, at + j * gn, gn, gl, y, y_at + j * yn, yn, yl, out, to + j * on, on, ol, count, total, width)


@register("cpu", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Products of a row, or of a tile of rows side by side, are summed; a second read from cache gives the result."""
    tensors = move_lanes_last(grad, y, out)
    groups, _, lanes = tensors[0].shape
    if not vectorises_across(tensors[0]):
        return bind_launch(_rows, tensors, groups * lanes)
    width = choose_tile_lanes(groups, lanes)
    return bind_launch(_columns, tensors, groups * -(-lanes // width), width)
