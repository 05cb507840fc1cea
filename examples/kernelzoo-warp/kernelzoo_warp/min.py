"""The minimum along an axis: a block to a row. A NaN is never dropped."""

import math
from typing import Any

import torch
import warp as wp

from kernelzoo.launch import Launch
from kernelzoo.registry import register
from kernelzoo_warp.launch import DTYPES, bound


@wp.kernel
def min_kernel(x: wp.array3d(dtype=Any), out: wp.array2d(dtype=Any), nan: Any):
    o, i, t = wp.tid()
    n = x.shape[1]
    least = x[o, 0, i]
    dropped = 0
    for j in range(t, n, wp.block_dim()):
        value = x[o, j, i]
        if value != value:
            dropped = 1
        if value < least or least != least:
            least = value
    least = wp.tile_extract(wp.tile_min(wp.tile(least)), 0)
    if wp.tile_extract(wp.tile_max(wp.tile(dropped)), 0) > 0:
        least = nan
    out[o, i] = least


@register("warp", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block to a row; its threads take elements in turn and meet in a tile."""
    nan = DTYPES[x.dtype](math.nan if x.dtype.is_floating_point else 0)  # of integers nothing is unequal to itself
    return bound("warp/min/auto", min_kernel, (x, out), (nan,), out)
