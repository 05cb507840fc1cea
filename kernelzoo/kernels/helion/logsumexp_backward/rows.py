import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile
from kernelzoo.kernels.helion.softmax.device_functions import exponential
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def backward_kernel(x, y, grad, out, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        of_row = y[o, i].to(acc_dtype)[:, None, :]
        factor = grad[o, i].to(acc_dtype)[:, None, :]
        for c in hl.tile(n):
            out[o, c, i] = (factor * exponential(x[o, c, i].to(acc_dtype) - of_row)).to(out.dtype)


@register("helion", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """The result is exp(x - y) * grad, with y and grad of the element's row: one read and one write."""
    rows, views = tiles.rows_and_views(x, out, y, grad)
    tile = streaming_tile(x, rows)
    return bind_tiled(
        "helion/logsumexp_backward/rows", backward_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes()
    )
