import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.states import load_merged_state, states_kernel
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def merge_kernel(tops, totals, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), tops, AXIS, SHAPE)
    top, total = load_merged_state(tops, totals, group, strip, AXIS, SHAPE)
    result = ct.reshape(top + ct.log(total), dev.per_row_shape(SHAPE, AXIS))
    ct.store(out, (group, strip), ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "logsumexp", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store states (max, sum). A second launch merges them."""
    id, rows = "cutile/logsumexp/split", rows_of(x, out)
    tile, plan, merged = tiles.part_tiles(rows, device_of(x))
    source, target = tiles.make_views(rows, tile, (x, out))
    left = [tiles.part_workspace(rows, tile, plan, x, tiles.acc_dtype(x.dtype)) for _ in range(2)]
    kinds, grid = (tile.elements_per_lane(rows), tile.axis, tile.shape), tile.count_tiles(rows) * plan.parts
    leave = bind_launch(id, states_kernel, (x, out), (source, *left), plan, kinds, grid, tile.warps)
    last, grid = (merged.axis, merged.shape), merged.count_tiles(rows)
    return chain_launches(leave, bind_launch(id, merge_kernel, (x, out), (*left, target), (), last, grid, merged.warps))
