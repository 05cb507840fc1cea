"""Short rows to a block, each of which some lanes of a warp hold in registers."""

import torch

from kernelzoo.kernels.cute.min_backward.tile_kernel import given_by, launch_of_tiles
from kernelzoo.kernels.cute.tiles import short_or_refuse
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("cute", "min_backward", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several short rows to a block, each held by lanes of one warp, which meet by shuffles."""
    id, given = "cute/min_backward/multi_row_tile", given_by(x, y, grad, out)
    return launch_of_tiles(id, (x, y, grad, out), given, short_or_refuse(given, 1, id))
