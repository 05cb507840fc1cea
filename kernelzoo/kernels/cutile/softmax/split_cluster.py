"""A row to a cluster of blocks (sm_90 and later), which hold it on chip together: one read, one write.

The kernels are those of fused. A program may be a cluster, and what its blocks exchange is the compiler's to say.
"""

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.softmax.ragged_kernel import launch_of_ragged
from kernelzoo.kernels.cutile.softmax.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.tiles import HELD_BYTES, Tile, is_ragged, wide_bytes
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, power_of_two, rows_of
from kernelzoo.registry import register

MOST_BLOCKS = 4
"""In a cluster: with more of them the compiler has a tile's elements change places in shared memory."""

EACH_BYTES = 32768
"""Of a row as computed, that a block holds if the cluster is not the largest: 32 registers of each of 256 threads."""


def cluster_blocks(rows: Rows, device: Device) -> int:
    """Blocks of a cluster that holds a row, at least two; 0 where none does."""
    bytes = power_of_two(rows.n) * wide_bytes(rows)
    if rows.across or device.cluster_blocks < 2 or bytes > MOST_BLOCKS * HELD_BYTES or rows.n < 2048:
        return 0
    return max(2, min(MOST_BLOCKS, bytes // EACH_BYTES))


@register("cutile", "softmax", "split_cluster")
def split_cluster(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks of a thread-block cluster to each row, which they hold on chip: one read, one write."""
    id, rows, device = "cutile/softmax/split_cluster", rows_of(x, out), device_of(x)
    blocks = cluster_blocks(rows, device)
    if not blocks:
        words = f"it takes rows of 2048 to {MOST_BLOCKS * HELD_BYTES // wide_bytes(rows)} of {rows.dtype}"
        raise UnsupportedProblemError(id, f"{words} along memory, on sm_90 or later; got {rows.n}")
    if is_ragged(rows, x):
        return launch_of_ragged(id, x, out, rows, 8, blocks)
    return launch_of_tiles(id, x, out, rows, Tile((1, 1, power_of_two(rows.n)), 2, 8), blocks)
