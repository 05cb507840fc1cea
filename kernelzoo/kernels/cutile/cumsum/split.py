import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.cumsum.rows import write_sums
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.sum.split import parts_kernel
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@ct.kernel
def scan_kernel(
    x, sums, out, parts, span, PARTS: ct.Constant[int],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """PARTS: the number of parts per row, rounded up to a power of two."""
    ct.grid_dependency_control_wait()
    group, strip, part, begin, end = dev.part_coords(x, parts, span, AXIS, SHAPE)
    every = dev.reduced_shape(SHAPE, AXIS, PARTS)
    left = dev.load_zero_padded(sums, dev.block_index(group, strip, 0, AXIS), every)
    total = ct.sum(ct.where(dev.element_indices(0, AXIS, every) < part, left, 0), AXIS, keepdims=True)
    write_sums(x, out, total, group, strip, begin, end, FOLD, AXIS, SHAPE)


@register("cutile", "cumsum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store sums. A second launch reads again and writes."""
    id, x = "cutile/cumsum/split", bool_as_uint8(x)
    rows = rows_of(x, out)
    tile, plan, _ = tiles.part_tiles(rows, device_of(x))
    source, target = tiles.make_views(rows, tile, (x, out))
    sums = tiles.part_workspace(rows, tile, plan, x, tiles.acc_dtype(x.dtype))
    kinds = tile.elements_per_lane(rows), tile.axis, tile.shape
    grid, warps = tile.count_tiles(rows) * plan.parts, tile.warps
    leave = bind_launch(id, parts_kernel, (x, out), (source, sums), plan, kinds, grid, warps)
    views, last, fit = (source, sums, target), (plan.padded_parts, *kinds), tile.programs_per_sm(rows, tiles.FIT, True)
    return chain_launches(leave, bind_launch(id, scan_kernel, (x, out), views, plan, last, grid, warps, occupancy=fit))
