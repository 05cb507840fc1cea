"""Short rows to a block, each of which some lanes of a warp hold in registers."""

import torch

from kernelzoo.kernels.cute.softmax.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cute.tiles import problem, short_or_refuse
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cute", "softmax", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several short rows to a block, each held by lanes of one warp, which meet by shuffles."""
    id, given = "cute/softmax/multi_row_tile", problem(rows_of(x, out))
    return launch_of_tiles(id, x, out, given, short_or_refuse(given, 1, id))
