"""RMS norm: a block to a row, which it reads twice."""

from typing import Any

import torch
import warp as wp

from kernelzoo.launch import Launch
from kernelzoo.registry import register
from kernelzoo_warp.launch import bound, wide


@wp.kernel
def rms_norm_kernel(x: wp.array3d(dtype=Any), weight: wp.array1d(dtype=Any), out: wp.array3d(dtype=Any), eps: Any):
    o, i, t = wp.tid()
    n = x.shape[1]
    squares = type(eps)(0)
    lost = type(eps)(0)
    for j in range(t, n, wp.block_dim()):
        value = type(eps)(x[o, j, i])
        new = squares + value * value
        lost += value * value - (new - squares)
        squares = new
    if wp.isfinite(squares):
        squares += lost
    total = wp.tile_extract(wp.tile_sum(wp.tile(squares)), 0)
    scale = type(eps)(1) / wp.sqrt(total / type(eps)(n) + eps)
    for j in range(t, n, wp.block_dim()):
        out[o, j, i] = out.dtype(type(eps)(x[o, j, i]) * scale * type(eps)(weight[j]))


@register("warp", "rms_norm", "auto")
def auto(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """A block to a row: the sum of its squares, then the results."""
    kind = type(wide(x.dtype))
    return bound("warp/rms_norm/auto", rms_norm_kernel, (x, weight, out), (kind(eps),), out)
