import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.min_backward.fused import divide_gradient_among_minima
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def online_kernel(x, y, grad, out, acc_dtype: torch.dtype):
    """Minima are counted in 32 bits within a block, and in 64 bits within a row."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = y[o, i].to(acc_dtype)
        count = hl.zeros([o, i], dtype=torch.int64)
        for c in hl.tile(n):
            count = count + (x[o, c, i].to(acc_dtype) == least[:, None, :]).to(torch.int32).sum(1).to(torch.int64)
        each, rest = divide_gradient_among_minima(grad[o, i], count, acc_dtype)
        for c in hl.tile(n):
            equal = x[o, c, i].to(acc_dtype) == least[:, None, :]
            out[o, c, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


@register("helion", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks counts each row's minima. A second pass reads again and writes."""
    rows, views = tiles.rows_and_views(x, out, y, grad)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES // 2)
    return bind_tiled(
        "helion/min_backward/online", online_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes(2)
    )
