import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import inside_of, places_of_ends, taken
from kernelzoo.kernels.helion.launch import over_flat, over_views
from kernelzoo.kernels.helion.min.tiles import block_tile, kinds
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def deferred_kernel(x, out, nothing: hl.constexpr, wide: torch.dtype):
    """nothing: what no element is above. Helion leaves out what lies past an end where it reduces, so that elsewhere a
    kernel has to."""
    outer, n, inner = x.size()
    block = hl.register_block_size(n)
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, block, i], nothing, dtype=wide)
        for c in hl.tile(n, block_size=block):
            inside = (c.index < n)[None, :, None]
            least = torch.minimum(least, torch.where(inside, x[o, c, i].to(wide), nothing))
        out[o, i] = torch.amin(least, dim=1).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_deferred_kernel(x, out, n, whole, nothing: hl.constexpr, wide: torch.dtype, shift: hl.constexpr):
    """The same of rows that begin anywhere in vectors. whole: elements that hold all whole vectors of a row."""
    rows = out.size(0)
    block = hl.register_block_size(whole)
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        running = hl.full([o, block], nothing, dtype=wide)
        for c in hl.tile(whole, block_size=block):
            place = first + c.index[None, :]
            running = torch.minimum(running, taken(x, place, place < stop, nothing, wide))
        end, outside = places_of_ends(row, n, first, stop, shift)
        least = torch.amin(taken(x, end, outside, nothing, wide), dim=1)
        out[o] = torch.minimum(least, torch.amin(running, dim=1)).to(out.dtype)


@register("helion", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows, or strips of columns; the running minimum stays a tile, reduced once, at the end."""
    id, x, out = "helion/min/rows_deferred", plain(x), plain(out)
    rows, views = tiles.problem(x, out)
    tile = block_tile(device_of(x), rows)
    if tiles.uneven(rows):
        whole = tiles.whole_of(rows)
        numbers, blocks = (rows.n, whole), (min(tile.cols, whole), tile.outer)
        return over_flat(id, ragged_deferred_kernel, x, out, tile.warps, numbers, kinds(rows, x), blocks)
    return over_views(id, deferred_kernel, views, tile, kinds(rows, x), (tile.cols, tile.outer, tile.inner))
