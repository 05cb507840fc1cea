import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import single_read_tile
from kernelzoo.kernels.helion.softmax.device_functions import update_state
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def zero_if_infinite(top):
    """Return the number to subtract from a row: its maximum, or 0 if that is infinite, to avoid inf - inf."""
    return torch.where(torch.abs(top) == float("inf"), 0.0, top)


@helion.kernel(static_shapes=False)
def logsumexp_kernel(x, out, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            top, total, lost = update_state(top, total, lost, x[o, c, i].to(acc_dtype), zero_if_infinite)
        total = add_rounding_error(total, lost)
        out[o, i] = (zero_if_infinite(top) + torch.log(total)).to(out.dtype)


@register("helion", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running (max, sum) state of each row."""
    rows, views = tiles.rows_and_views(x, out)
    tile = single_read_tile(x, rows)
    return bind_tiled("helion/logsumexp/rows", logsumexp_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes())
