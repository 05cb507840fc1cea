import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import load_masked, row_end_indices, vector_bounds
from kernelzoo.kernels.helion.launch import bind_flat, bind_tiled
from kernelzoo.kernels.helion.min.tiles import kernel_constants, running_min_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def deferred_kernel(x, out, highest: hl.constexpr, acc_dtype: torch.dtype):
    """highest: a value that no element exceeds. Helion masks elements past a row's end only in reductions. Elsewhere
    the kernel must mask them itself."""
    outer, n, inner = x.size()
    block = hl.register_block_size(n)
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, block, i], highest, dtype=acc_dtype)
        for c in hl.tile(n, block_size=block):
            inside = (c.index < n)[None, :, None]
            least = torch.minimum(least, torch.where(inside, x[o, c, i].to(acc_dtype), highest))
        out[o, i] = torch.amin(least, dim=1).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_deferred_kernel(x, out, n, whole, highest: hl.constexpr, acc_dtype: torch.dtype, shift: hl.constexpr):
    """Do the same as ``deferred_kernel`` for unaligned rows. whole: a length that covers a row's whole vectors."""
    rows = out.size(0)
    block = hl.register_block_size(whole)
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        running = hl.full([o, block], highest, dtype=acc_dtype)
        for c in hl.tile(whole, block_size=block):
            place = first + c.index[None, :]
            running = torch.minimum(running, load_masked(x, place, place < stop, highest, acc_dtype))
        end, outside = row_end_indices(row, n, first, stop, shift)
        least = torch.amin(load_masked(x, end, outside, highest, acc_dtype), dim=1)
        out[o] = torch.minimum(least, torch.amin(running, dim=1)).to(out.dtype)


@register("helion", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces rows or a strip of columns. The running minimum is a tile, reduced after the loop."""
    id, x, out = "helion/min/rows_deferred", bool_as_uint8(x), bool_as_uint8(out)
    rows, views = tiles.rows_and_views(x, out)
    tile = running_min_tile(device_of(x), rows)
    if tiles.hides_vectors(rows):
        whole = tiles.padded_length(rows)
        numbers, blocks = (rows.n, whole), (min(tile.cols, whole), tile.outer)
        return bind_flat(id, ragged_deferred_kernel, x, out, tile.warps, numbers, kernel_constants(rows, x), blocks)
    return bind_tiled(id, deferred_kernel, views, tile, kernel_constants(rows, x), (tile.cols, tile.outer, tile.inner))
