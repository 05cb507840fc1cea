import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.min.device_functions import load_padded, min_of_unaligned_ends, nan_minimum, row_min
from kernelzoo.kernels.cutile.min.tiles import kernel_constants, running_min_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@ct.kernel
def rows_deferred_kernel(
    x, out, n, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], MASKED: ct.Constant[bool],
    PACK: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    inside, first = dev.whole_vectors(x, group * n, n, PACK), 0 if PACK else group
    running = ct.full(SHAPE, IDENTITY, x.dtype)
    for i in range(ct.num_tiles(inside, AXIS, SHAPE)):
        running = nan_minimum(running, load_padded(inside, first, strip, i, IDENTITY, FLOAT, MASKED, AXIS, SHAPE))
    least = row_min(running, AXIS)
    if PACK:
        least = nan_minimum(least, min_of_unaligned_ends(x, group, n, IDENTITY, PACK))
    ct.store(out, (group, strip), ct.reshape(least, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)


@register("cutile", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces rows or a strip of columns. The running minimum is a tile, reduced after the loop."""
    id, x, out = "cutile/min/rows_deferred", bool_as_uint8(x), bool_as_uint8(out)
    rows = rows_of(x, out)
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, running_min_tile(device_of(x), rows), x)
    views, kinds = tiles.make_views(rows, tile, (x, out), vector_size=pack), kernel_constants(rows, x.dtype, tile, pack)
    return bind_launch(id, rows_deferred_kernel, (x, out), views, (rows.n,), kinds, tile.count_tiles(rows), tile.warps)
