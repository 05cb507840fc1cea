import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import single_read_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def sum_kernel(x, out, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            total, lost = add_exactly(total, lost, x[o, c, i].to(acc_dtype).sum(1))
        out[o, i] = add_rounding_error(total, lost).to(out.dtype)


@register("helion", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each block is summed in a tree. The sums of blocks are added up with compensation for rounding."""
    x = bool_as_uint8(x)
    rows, views = tiles.rows_and_views(x, out)
    tile, acc_dtype = single_read_tile(x, rows), tiles.acc_dtype(x, out)
    return bind_tiled("helion/sum/rows", sum_kernel, views, tile, (acc_dtype,), tile.block_sizes())
