import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import load_masked, row_end_indices, vector_bounds
from kernelzoo.kernels.helion.launch import bind_flat, bind_tiled
from kernelzoo.kernels.helion.min.tiles import kernel_constants, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def rows_kernel(x, out, highest: hl.constexpr, acc_dtype: torch.dtype):
    """Write the minimum of each row. highest: a value that no element exceeds."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, i], highest, dtype=acc_dtype)
        for c in hl.tile(n):
            least = torch.minimum(least, torch.amin(x[o, c, i].to(acc_dtype), dim=1))
        out[o, i] = least.to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_rows_kernel(x, out, n, whole, highest: hl.constexpr, acc_dtype: torch.dtype, shift: hl.constexpr):
    """Do the same as ``rows_kernel`` for unaligned rows. whole: a length that covers a row's whole vectors."""
    rows = out.size(0)
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        end, outside = row_end_indices(row, n, first, stop, shift)
        least = torch.amin(load_masked(x, end, outside, highest, acc_dtype), dim=1)
        for c in hl.tile(whole):
            place = first + c.index[None, :]
            block = load_masked(x, place, place < stop, highest, acc_dtype)
            least = torch.minimum(least, torch.amin(block, dim=1))
        out[o] = least.to(out.dtype)


@register("helion", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces complete rows. Every block of a row is reduced to a scalar before it is merged."""
    id, x, out = "helion/min/rows", bool_as_uint8(x), bool_as_uint8(out)
    rows, views = tiles.rows_and_views(x, out)
    tile = row_tile(device_of(x), rows)
    if tiles.hides_vectors(rows):
        whole = tiles.padded_length(rows)
        numbers, blocks = (rows.n, whole), (tile.outer, min(tile.cols, whole))
        return bind_flat(id, ragged_rows_kernel, x, out, tile.warps, numbers, kernel_constants(rows, x), blocks)
    return bind_tiled(id, rows_kernel, views, tile, kernel_constants(rows, x), tile.block_sizes())
