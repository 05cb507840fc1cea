import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.sum.rows import sum_rows
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@ct.kernel
def parts_kernel(x, sums, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip, part, begin, end = dev.part_coords(x, parts, span, AXIS, SHAPE)
    result = sum_rows(x, group, strip, begin, end, FOLD, AXIS, SHAPE)
    ct.store(sums, dev.block_index(group, strip, part, AXIS), result, allow_tma=False)


@ct.kernel
def merge_kernel(sums, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """A tile contains the sums of all parts of its rows, padded to a power of two."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), sums, AXIS, SHAPE)
    every = dev.load_zero_padded(sums, dev.block_index(group, strip, 0, AXIS), SHAPE)
    ct.store(out, (group, strip), ct.astype(ct.sum(every, AXIS), out.dtype), allow_tma=False)


@register("cutile", "sum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store sums. A second launch adds them up in a tree."""
    id, x = "cutile/sum/split", bool_as_uint8(x)
    rows = rows_of(x, out)
    tile, plan, merged = tiles.part_tiles(rows, device_of(x))
    source, target = tiles.make_views(rows, tile, (x, out))
    sums = tiles.part_workspace(rows, tile, plan, x, tiles.acc_dtype(x.dtype))
    kinds, grid = (tile.elements_per_lane(rows), tile.axis, tile.shape), tile.count_tiles(rows) * plan.parts
    leave = bind_launch(id, parts_kernel, (x, out), (source, sums), plan, kinds, grid, tile.warps)
    last, grid = (merged.axis, merged.shape), merged.count_tiles(rows)
    return chain_launches(leave, bind_launch(id, merge_kernel, (x, out), (sums, target), (), last, grid, merged.warps))
