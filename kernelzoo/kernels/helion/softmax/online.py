"""A running (maximum, sum) pair over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.softmax.ragged_online_kernel import launch_of_ragged_online
from kernelzoo.kernels.helion.softmax.words import exponential
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

BLOCK_BYTES = 32768
"""Of a block as it is computed: 32 float32 elements to each of 256 threads."""

LONG = 16384
"""Elements of a row along memory, from which on a block is twice as long, and so many threads more have it."""


@helion.kernel(static_shapes=False)
def online_kernel(x, out, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            higher = torch.maximum(top, torch.amax(tile, dim=1))
            # Of elements that are all -inf nothing is subtracted, so that no difference is -inf - -inf.
            shift = torch.where(higher == float("-inf"), 0.0, higher)
            total = total * exponential(top - shift) + exponential(tile - shift[:, None, :]).sum(1)
            top = higher
        inverse = 1.0 / total
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            out[o, c, i] = (exponential(tile - top[:, None, :]) * inverse[:, None, :]).to(out.dtype)


@register("helion", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair of each row, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows = rows_of(x, out)
    tile, views = tiles.block(rows, BLOCK_BYTES), tiles.seen(rows, x, out)
    if not rows.across and rows.n >= LONG:
        tile = tile._replace(cols=2 * tile.cols, warps=2 * tile.warps)
    if tiles.uneven(rows):
        return launch_of_ragged_online("helion/softmax/online", x, out, rows, tile)
    kinds, far = (tiles.wide(x),), tiles.far(*views)
    blocks = tile.outer, tile.inner, tile.cols, tile.cols
    program = Program(online_kernel, tiles.examples(*views), 0, kinds, blocks, (1, 0), tile.warps, far)
    return bound("helion/softmax/online", program, views, views)
