import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.min.device_functions import load_padded, min_of_unaligned_ends, nan_minimum, row_min
from kernelzoo.kernels.cutile.min.tiles import kernel_constants, row_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@ct.kernel
def rows_kernel(
    x, out, n, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], MASKED: ct.Constant[bool],
    PACK: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    inside, first = dev.whole_vectors(x, group * n, n, PACK), 0 if PACK else group
    least = ct.full(dev.reduced_shape(SHAPE, AXIS, 1), IDENTITY, x.dtype)
    if PACK:
        least = min_of_unaligned_ends(x, group, n, IDENTITY, PACK)
    for i in range(ct.num_tiles(inside, AXIS, SHAPE)):
        block = load_padded(inside, first, strip, i, IDENTITY, FLOAT, MASKED, AXIS, SHAPE)
        least = nan_minimum(least, row_min(block, AXIS))
    ct.store(out, (group, strip), ct.reshape(least, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)


@register("cutile", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces complete rows. Every block of a row is reduced to a scalar before it is merged."""
    id, x, out = "cutile/min/rows", bool_as_uint8(x), bool_as_uint8(out)
    rows = rows_of(x, out)
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, row_tile(device_of(x), rows, reduces_in_loop=True), x)
    views, kinds = tiles.make_views(rows, tile, (x, out), vector_size=pack), kernel_constants(rows, x.dtype, tile, pack)
    return bind_launch(id, rows_kernel, (x, out), views, (rows.n,), kinds, tile.count_tiles(rows), tile.warps)
