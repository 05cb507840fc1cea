import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.states import row_state
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def logsumexp_kernel(x, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    top, total = row_state(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), FOLD, AXIS, SHAPE)
    result = ct.reshape(top + ct.log(total), dev.per_row_shape(SHAPE, AXIS))
    ct.store(out, (group, strip), ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass keeps a running (max, sum) state in each lane. Lanes merge their states after the loop."""
    id, rows = "cutile/logsumexp/rows", rows_of(x, out)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x), 1, tiles.READ_BYTES)
    views, constants = tiles.make_views(rows, tile, (x, out)), (tile.elements_per_lane(rows), tile.axis, tile.shape)
    count, fit = tile.count_tiles(rows), tile.programs_per_sm(rows, 4 * tiles.FIT // rows.accumulator_bytes)
    return bind_launch(id, logsumexp_kernel, (x, out), views, (), constants, count, tile.warps, occupancy=fit)
