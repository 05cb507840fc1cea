"""Short rows to a block, each of which some lanes of a warp hold in registers."""

import torch

from kernelzoo.kernels.cute.softmax_backward.tile_kernel import given_by, launch_of_tiles
from kernelzoo.kernels.cute.tiles import short_or_refuse
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("cute", "softmax_backward", "multi_row_tile")
def multi_row_tile(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several short rows to a block, each held by lanes of one warp, which meet by shuffles."""
    id, given = "cute/softmax_backward/multi_row_tile", given_by(grad, y, out)
    return launch_of_tiles(id, (grad, y, out), given, short_or_refuse(given, 2, id))
