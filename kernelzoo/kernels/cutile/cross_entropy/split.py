import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.cross_entropy.rows import compute_loss
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.states import load_merged_state, states_kernel
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@ct.kernel
def merge_kernel(
    x, labels, tops, totals, loss, IGNORE_INDEX: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), tops, AXIS, SHAPE)
    top, total = load_merged_state(tops, totals, group, strip, AXIS, SHAPE)
    result = compute_loss(x, labels, group, strip, top, total, IGNORE_INDEX, AXIS, SHAPE)
    ct.store(loss, (group, strip), ct.astype(result, loss.dtype), allow_tma=False)


@register("cutile", "cross_entropy", "split")
def split(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """Several programs share a row or a strip of columns, and store states (max, sum). A second launch merges them."""
    id, tensors = "cutile/cross_entropy/split", (x, labels, loss)
    rows, others = layouts_of(x, loss, labels)
    tile, plan, last = tiles.part_tiles(rows, device_of(x))
    source, beside, target = tiles.make_views(rows, tile, tensors, others)
    states = [tiles.part_workspace(rows, tile, plan, x, tiles.acc_dtype(x.dtype)) for _ in range(2)]
    kinds, programs = (tile.elements_per_lane(rows), tile.axis, tile.shape), tile.count_tiles(rows) * plan.parts
    leave = bind_launch(id, states_kernel, tensors, (source, *states), plan, kinds, programs, tile.warps)
    views, kinds = (source, beside, *states, target), (ignore_index, last.axis, last.shape)
    return chain_launches(
        leave, bind_launch(id, merge_kernel, tensors, views, (), kinds, last.count_tiles(rows), last.warps)
    )
