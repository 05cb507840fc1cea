"""Softmax: a block to a row, which it reads three times."""

from typing import Any

import torch
import warp as wp

from kernelzoo.launch import Launch
from kernelzoo.registry import register
from kernelzoo_warp.launch import bound, wide


@wp.func
def larger(a: Any, b: Any):
    return wp.where(a > b, a, b)


@wp.kernel
def softmax_kernel(x: wp.array3d(dtype=Any), out: wp.array3d(dtype=Any), zero: Any):
    o, i, t = wp.tid()
    n = x.shape[1]
    top = -type(zero)(wp.inf)
    for j in range(t, n, wp.block_dim()):
        top = larger(type(zero)(x[o, j, i]), top)
    top = wp.tile_extract(wp.tile_max(wp.tile(top)), 0)
    if top == -type(zero)(wp.inf):
        top = zero  # of a row of -inf alone nothing is subtracted: 0 / 0 is the NaN that is due
    total = zero
    lost = zero
    for j in range(t, n, wp.block_dim()):
        value = wp.exp(type(zero)(x[o, j, i]) - top)
        new = total + value
        lost += value - (new - total)  # the larger comes first but for the first few, which are added up exactly enough
        total = new
    total = wp.tile_extract(wp.tile_sum(wp.tile(total + lost)), 0)
    for j in range(t, n, wp.block_dim()):
        out[o, j, i] = out.dtype(wp.exp(type(zero)(x[o, j, i]) - top) / total)


@register("warp", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block to a row: its maximum, the sum of its exponentials, and the quotients."""
    return bound("warp/softmax/auto", softmax_kernel, (x, out), (wide(x.dtype),), out)
