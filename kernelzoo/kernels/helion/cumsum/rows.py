import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def cumsum_kernel(x, out, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            tile = x[o, c, i].to(acc_dtype)
            out[o, c, i] = (total[:, None, :] + hl.cumsum(tile, dim=1)).to(out.dtype)
            total = total + tile.sum(1)


@register("helion", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each block is scanned by a tree of additions. The sums of whole blocks are added up in order."""
    x = bool_as_uint8(x)
    rows, views = tiles.rows_and_views(x, out)
    tile, acc_dtype = streaming_tile(x, rows), tiles.acc_dtype(x, out)
    return bind_tiled("helion/cumsum/rows", cumsum_kernel, views, tile, (acc_dtype,), tile.block_sizes())
