import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.row_tiles import tile_and_parts
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def parts_kernel(x, sums, span, acc_dtype: torch.dtype):
    """Store the sums of span elements of each row of a tile."""
    outer, n, inner = x.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            total, lost = add_exactly(total, lost, x[o, c, i].to(acc_dtype).sum(1))
        sums[o, part.begin, i] = add_rounding_error(total, lost)


@helion.kernel(static_shapes=False)
def merge_kernel(x, sums, out, span, acc_dtype: torch.dtype):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        out[o, i] = sums[o, :, i].sum(1).to(out.dtype)


@register("helion", "sum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store sums. A second launch adds them up in a tree."""
    x = bool_as_uint8(x)
    rows, views = tiles.rows_and_views(x, out)
    (tile, plan), kinds = tile_and_parts(x, rows), (tiles.acc_dtype(x, out),)
    both = parts_kernel, merge_kernel
    return bind_pair("helion/sum/split", both, views, 1, rows, tile, plan, kinds, kinds, merge_blocks=(1, 1))
