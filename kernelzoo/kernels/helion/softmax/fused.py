import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import inside_of, places_of_ends, taken
from kernelzoo.kernels.helion.launch import over_flat, over_views
from kernelzoo.kernels.helion.softmax.device_functions import exponential, subtracted
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register

RAGGED_BYTES = 65536
"""Of a row that begins anywhere in vectors. Of a longer one, or of float64, the places of elements take more
registers than there are."""


@helion.kernel(static_shapes=False)
def tile_kernel(x, out, wide: torch.dtype):
    """What lies past a row's end is no part of a maximum or a sum."""
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(wide)
        top = torch.amax(tile, dim=1, keepdim=True)
        # Of a row of -inf alone nothing is subtracted, so that 0 / 0 makes its NaN.
        exponentials = exponential(tile - subtracted(top))
        out[o, :, i] = (exponentials * (1.0 / exponentials.sum(1, keepdim=True))).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_tile_kernel(x, out, n, rows, wide: torch.dtype, shift: hl.constexpr, whole: hl.constexpr):
    """The same of a row that begins anywhere: its whole vectors, and its ends by elements. Results get the row's axis
    back by ``[:, None]``: Helion makes a reshape of ``keepdim``, by which in Triton 3.6 every thread holds all."""
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = inside_of(row, n, shift)
        end, outside = places_of_ends(row, n, first, stop, shift)
        place = first + hl.arange(whole)[None, :]
        here = place < stop
        tile = taken(x, place, here, float("-inf"), wide)
        ends = taken(x, end, outside, float("-inf"), wide)
        top = torch.maximum(torch.amax(tile, dim=1)[:, None], torch.amax(ends, dim=1)[:, None])
        tile = exponential(tile - subtracted(top))
        ends = exponential(ends - subtracted(top))
        inverse = 1.0 / (tile.sum(1)[:, None] + ends.sum(1)[:, None])
        hl.store(out, [place], (tile * inverse).to(out.dtype), extra_mask=here)
        hl.store(out, [end], (ends * inverse).to(out.dtype), extra_mask=outside)


@register("helion", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a program, which it holds on chip: several short ones, one, or a strip of columns."""
    id, device = "helion/softmax/fused", device_of(x)
    rows, views = tiles.problem(x, out)
    alone = tiles.is_alone(device, rows)
    tile = tiles.held(id, device, rows, 1, alone)
    if alone and rows.itemsize < 8 and rows.n * rows.itemsize <= RAGGED_BYTES:
        kinds = tiles.wide(x), tiles.shift_of(rows), tiles.whole_of(rows)
        return over_flat(id, ragged_tile_kernel, x, out, tile.warps, (rows.n, rows.total), kinds, (tile.outer,))
    return over_views(id, tile_kernel, views, tile, (tiles.wide(x),), tile.blocks(0))
