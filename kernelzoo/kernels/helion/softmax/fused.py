import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import load_masked, row_end_indices, vector_bounds
from kernelzoo.kernels.helion.launch import bind_flat, bind_tiled
from kernelzoo.kernels.helion.softmax.device_functions import exponential, zero_if_neg_inf
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register

RAGGED_BYTES = 65536
"""The most bytes of a row for ``ragged_tile_kernel``. Offsets in longer rows, or in float64, don't fit in registers."""


@helion.kernel(static_shapes=False)
def tile_kernel(x, out, acc_dtype: torch.dtype):
    """Maxima and sums need no mask, because Helion excludes elements past a row's end."""
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(acc_dtype)
        top = torch.amax(tile, dim=1, keepdim=True)
        # 0 is subtracted from a row of only -inf. Its results are then 0 * (1 / 0) = NaN.
        exponentials = exponential(tile - zero_if_neg_inf(top))
        out[o, :, i] = (exponentials * (1.0 / exponentials.sum(1, keepdim=True))).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_tile_kernel(x, out, n, rows, acc_dtype: torch.dtype, shift: hl.constexpr, whole: hl.constexpr):
    """Do the same as ``tile_kernel`` for unaligned rows: read whole vectors, and single elements at the ends.
    ``keepdim`` isn't used, because Helion would reshape. In Triton 3.6 every thread would then hold all elements."""
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        end, outside = row_end_indices(row, n, first, stop, shift)
        place = first + hl.arange(whole)[None, :]
        here = place < stop
        tile = load_masked(x, place, here, float("-inf"), acc_dtype)
        ends = load_masked(x, end, outside, float("-inf"), acc_dtype)
        top = torch.maximum(torch.amax(tile, dim=1)[:, None], torch.amax(ends, dim=1)[:, None])
        tile = exponential(tile - zero_if_neg_inf(top))
        ends = exponential(ends - zero_if_neg_inf(top))
        inverse = 1.0 / (tile.sum(1)[:, None] + ends.sum(1)[:, None])
        hl.store(out, [place], (tile * inverse).to(out.dtype), extra_mask=here)
        hl.store(out, [end], (ends * inverse).to(out.dtype), extra_mask=outside)


@register("helion", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: one read, one write."""
    id, device = "helion/softmax/fused", device_of(x)
    rows, views = tiles.rows_and_views(x, out)
    one_row = tiles.prefers_one_row(device, rows)
    tile = tiles.whole_row_tile(id, device, rows, 1, one_row)
    if one_row and rows.itemsize < 8 and rows.n * rows.itemsize <= RAGGED_BYTES:
        kinds = tiles.acc_dtype(x), tiles.vector_log2(rows), tiles.padded_length(rows)
        return bind_flat(id, ragged_tile_kernel, x, out, tile.warps, (rows.n, rows.total), kinds, (tile.outer,))
    return bind_tiled(id, tile_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes(0))
