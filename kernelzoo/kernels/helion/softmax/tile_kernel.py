"""A tile of whole rows to a program, which it holds on chip: one kernel, of which fused, multi_row_tile and columns
have each a block of another shape."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion.softmax.words import exponential


@helion.kernel(static_shapes=False)
def tile_kernel(x, out, wide: torch.dtype):
    """One read, one write. What lies past a row's end is no part of a maximum or a sum."""
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(wide)
        top = torch.amax(tile, dim=1, keepdim=True)
        # Of a row of -inf alone nothing is subtracted, so that 0 / 0 makes its NaN.
        exponentials = exponential(tile - torch.where(top == float("-inf"), 0.0, top))
        out[o, :, i] = (exponentials * (1.0 / exponentials.sum(1, keepdim=True))).to(out.dtype)
