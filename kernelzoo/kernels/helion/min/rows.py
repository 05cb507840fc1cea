import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import inside_of, places_of_ends, taken
from kernelzoo.kernels.helion.launch import over_flat, over_views
from kernelzoo.kernels.helion.min.tiles import kinds, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def rows_kernel(x, out, nothing: hl.constexpr, wide: torch.dtype):
    """nothing: what no element is above."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, i], nothing, dtype=wide)
        for c in hl.tile(n):
            least = torch.minimum(least, torch.amin(x[o, c, i].to(wide), dim=1))
        out[o, i] = least.to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_rows_kernel(x, out, n, whole, nothing: hl.constexpr, wide: torch.dtype, shift: hl.constexpr):
    """The same of rows that begin anywhere in vectors. whole: elements that hold all whole vectors of a row."""
    rows = out.size(0)
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift)
        least = torch.amin(taken(x, end, outside, nothing, wide), dim=1)
        for c in hl.tile(whole):
            place = first + c.index[None, :]
            block = taken(x, place, place < stop, nothing, wide)
            least = torch.minimum(least, torch.amin(block, dim=1))
        out[o] = least.to(out.dtype)


@register("helion", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    id, x, out = "helion/min/rows", plain(x), plain(out)
    rows, views = tiles.problem(x, out)
    tile = row_tile(device_of(x), rows)
    if tiles.uneven(rows):
        whole = tiles.whole_of(rows)
        numbers, blocks = (rows.n, whole), (tile.outer, min(tile.cols, whole))
        return over_flat(id, ragged_rows_kernel, x, out, tile.warps, numbers, kinds(rows, x), blocks)
    return over_views(id, rows_kernel, views, tile, kinds(rows, x), tile.blocks())
