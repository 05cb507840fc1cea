import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import min_identity
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def argmin_kernel(x, out, highest: hl.constexpr, acc_dtype: torch.dtype):
    """highest: a value that no element exceeds. Each lane records its least element and that element's block number."""
    outer, n, inner = x.size()
    block = hl.register_block_size(n)
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, block, i], highest, dtype=acc_dtype)
        number = hl.zeros([o, block, i], dtype=torch.int32)
        for c in hl.tile(n, block_size=block):
            tile = torch.where((c.index < n)[None, :, None], x[o, c, i].to(acc_dtype), highest)
            lower = ~(tile >= least) & (least == least)  # NaN is the least; of equal elements, the first wins
            least, number = torch.where(lower, tile, least), torch.where(lower, c.id, number)
        low = torch.amin(least, dim=1)  # if a lane has NaN, this is NaN, and only such lanes are found
        found = (least == low[:, None, :]) | (least != least)
        place = number.to(torch.int64) * block + hl.arange(block)[None, :, None]
        out[o, i] = torch.amin(torch.where(found, place, n), dim=1)


@register("helion", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each lane records its least element and that element's block number. Lanes are compared after the loop."""
    rows, views = tiles.rows_and_views(x, out)
    tile, kinds = streaming_tile(x, rows), (min_identity(x.dtype), tiles.acc_dtype(x))
    return bind_tiled("helion/argmin/rows", argmin_kernel, views, tile, kinds, (tile.cols, tile.outer, tile.inner))
