import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.row_tiles import tile_and_parts
from kernelzoo.kernels.helion.sum.split import parts_kernel
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def scan_kernel(x, sums, out, span, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = hl.zeros([o, i], dtype=acc_dtype)
        for before in hl.tile(part.begin, block_size=64):
            total = total + sums[o, before, i].sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            tile = x[o, c, i].to(acc_dtype)
            out[o, c, i] = (total[:, None, :] + hl.cumsum(tile, dim=1)).to(out.dtype)
            total = total + tile.sum(1)


@register("helion", "cumsum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store sums. A second launch reads again and writes."""
    x = bool_as_uint8(x)
    rows, views = tiles.rows_and_views(x, out)
    (tile, plan), acc_dtype = tile_and_parts(x, rows), tiles.acc_dtype(x, out)
    both = parts_kernel, scan_kernel
    return bind_pair("helion/cumsum/split", both, views, 1, rows, tile, plan, (acc_dtype,), (acc_dtype,))
