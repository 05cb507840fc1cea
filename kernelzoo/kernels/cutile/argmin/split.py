import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.argmin.rows import PAST, find_minima_and_indices, select_lesser
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.min.device_functions import load_padded
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import min_identity, rows_of
from kernelzoo.registry import register


@ct.kernel
def parts_kernel(
    x, least, places, parts, span, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip, part, begin, end = dev.part_coords(x, parts, span, AXIS, SHAPE)
    low, place = find_minima_and_indices(x, group, strip, begin, end, IDENTITY, FLOAT, FOLD, AXIS, SHAPE)
    ct.store(least, dev.block_index(group, strip, part, AXIS), low, allow_tma=False)
    ct.store(places, dev.block_index(group, strip, part, AXIS), place, allow_tma=False)


@ct.kernel
def merge_kernel(
    least, places, out, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """A tile contains the results of all parts of its rows, padded to a power of two."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), least, AXIS, SHAPE)
    low = load_padded(least, group, strip, 0, IDENTITY, FLOAT, not FLOAT, AXIS, SHAPE)
    place = load_padded(places, group, strip, 0, PAST, False, True, AXIS, SHAPE)
    _, place = ct.reduce((low, place), AXIS, select_lesser, (IDENTITY, PAST))
    ct.store(out, (group, strip), place, allow_tma=False)


@register("cutile", "argmin", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or strip of columns, and store minima and indices. A second launch compares them."""
    id, rows = "cutile/argmin/split", rows_of(x, out)
    tile, plan, merged = tiles.part_tiles(rows, device_of(x))
    source, target = tiles.make_views(rows, tile, (x, out))
    left = [tiles.part_workspace(rows, tile, plan, x, dtype) for dtype in (x.dtype, torch.int64)]
    same, grid = (min_identity(x.dtype), x.dtype.is_floating_point), tile.count_tiles(rows) * plan.parts
    kinds = (*same, tile.elements_per_lane(rows), tile.axis, tile.shape)
    leave = bind_launch(id, parts_kernel, (x, out), (source, *left), plan, kinds, grid, tile.warps)
    last, grid = (*same, merged.axis, merged.shape), merged.count_tiles(rows)
    return chain_launches(leave, bind_launch(id, merge_kernel, (x, out), (*left, target), (), last, grid, merged.warps))
