"""Softmax in two passes: a running maximum and sum over blocks of a row, then a second read to write the result.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), arXiv:1805.02867.
"""

import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import as_float, as_sortable, empty, exponential, round_like, two_sum, widen
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel, vectorises_across
from kernelzoo.kernels.cpu.softmax.lanes import LANES_BLOCK, add_lane_sums, exponentiate_lanes, load_lanes, store_lanes
from kernelzoo.kernels.cpu.softmax.rows import BLOCK, exponentiate, row_maximum
from kernelzoo.launch import Launch
from kernelzoo.registry import register

ONLINE_BLOCK = 4096
"""Elements between updates of the running maximum in ``online``: 16 kB of float32, half of a first-level cache."""

ONLINE_LANES = 256
"""The most rows side by side in ``online``, which keeps LANES_BLOCK elements of each: 16 kB of float32."""

SLACK = 8.0
"""``online`` rescales its sum if a maximum exceeds the running reference by more. Terms reach e^8, far from
overflow. Rescaling shrinks earlier rounding errors by e^-8, so that they can't add up over a long row."""


@njit
def zero_if_neg_inf(reference):
    """Return what to subtract from elements: ``reference``, or 0 if it is -inf, since -inf - -inf is NaN."""
    return type(reference)(0) if reference == -np.inf else reference


@parallel_kernel(error_model="numpy")
def _online_rows(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, first, last):
    n, x_n, out_n = np.uint64(n), np.uint64(x_n), np.uint64(out_n)
    long_block, block, zero, one = np.uint64(ONLINE_BLOCK), np.uint64(BLOCK), np.uint64(0), np.uint64(1)
    row = empty(block, x)
    group, lane = first // lanes, first % lanes
    for _ in range(first, last):
        start = np.uint64(group * x_group + lane * x_lane)
        to = np.uint64(group * out_group + lane * out_lane)
        group, lane = (group, lane + 1) if lane + 1 < lanes else (group + 1, 0)
        reference = row.dtype.type(-np.inf)
        total = carry = row.dtype.type(0)
        for at in range(zero, n, long_block):
            length = min(long_block, n - at)
            top = as_float(as_sortable(row_maximum(x, start + at * x_n, x_n, length)))
            if top > reference + row.dtype.type(SLACK):
                factor = exponential(reference - top)
                total, carry, reference = total * factor, carry * factor, top
            for begin in range(at, at + length, block):
                count = min(block, at + length - begin)
                term = exponentiate(x, start + begin * x_n, x_n, count, zero_if_neg_inf(reference), row, zero)
                total, carry = two_sum(total, carry, term)
        scale, top = row.dtype.type(1) / (total + carry), zero_if_neg_inf(reference)
        if x_n == one and out_n == one:
            for j in range(n):
                out[to + j] = round_like(exponential(widen(x[start + j]) - top) * scale, out[to])
        else:
            for j in range(n):
                out[to + j * out_n] = round_like(exponential(widen(x[start + j * x_n]) - top) * scale, out[to])


@parallel_kernel(error_model="numpy")
def _online_columns(x, out, n, lanes, x_group, x_n, x_lane, out_group, out_n, out_lane, pitch, first, last):
    tiles = (lanes - 1) // pitch + 1
    n, x_n, out_n, pitch = np.uint64(n), np.uint64(x_n), np.uint64(out_n), np.uint64(pitch)
    block, zero = np.uint64(LANES_BLOCK), np.uint64(0)
    tile, top, reference, offset = empty(block * pitch, x), empty(pitch, x), empty(pitch, x), empty(pitch, x)
    total, carry, partial = empty(pitch, x), empty(pitch, x), empty(pitch, x)
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
            load_lanes(x, start, begin, count, x_n, np.uint64(x_lane), tile, pitch, top, width)
            for i in range(width):
                raised = top[i] if top[i] > reference[i] + slack else reference[i]
                offset[i] = zero_if_neg_inf(raised)
                factor = exponential(reference[i] - offset[i])
                reference[i] = raised
                total[i] *= factor
                carry[i] *= factor
            exponentiate_lanes(tile, zero, count, pitch, offset, partial, width)
            add_lane_sums(total, carry, partial, width)
        for i in range(width):
            total[i] = 1 / (total[i] + carry[i])
        for begin in range(zero, n, block):
            count = min(block, n - begin)
            load_lanes(x, start, begin, count, x_n, np.uint64(x_lane), tile, pitch, top, width)
            exponentiate_lanes(tile, zero, count, pitch, offset, partial, width)
            store_lanes(tile, zero, count, pitch, total, out, to + begin * out_n, out_n, np.uint64(out_lane), width)


@register("cpu", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The first pass computes a running (max, sum) over blocks of a row, the second writes. Rows run in parallel."""
    x, out = move_lanes_last(x, out)
    groups, _, lanes = x.shape
    if not vectorises_across(x):
        return bind_launch(_online_rows, (x, out), groups * lanes)
    width = min(lanes, ONLINE_LANES)
    return bind_launch(_online_columns, (x, out), groups * -(-lanes // width), width)
