import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def online_kernel(grad, y, out, acc_dtype: torch.dtype):
    outer, n, inner = grad.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            total, lost = add_exactly(total, lost, (grad[o, c, i].to(acc_dtype) * y[o, c, i].to(acc_dtype)).sum(1))
        total = add_rounding_error(total, lost)
        for c in hl.tile(n):
            out[o, c, i] = (y[o, c, i].to(acc_dtype) * (grad[o, c, i].to(acc_dtype) - total[:, None, :])).to(out.dtype)


@register("helion", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running sum of each row. A second pass reads again and writes."""
    rows, views = tiles.rows_and_views(grad, out, y)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES // 2)
    return bind_tiled(
        "helion/softmax_backward/online", online_kernel, views, tile, (tiles.acc_dtype(grad),), tile.block_sizes(2)
    )
