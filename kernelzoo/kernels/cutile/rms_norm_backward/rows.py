import cuda.tile as ct
from torch import Tensor

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import View, bind_launch, device_of
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import cdiv, layouts_of
from kernelzoo.registry import register


@ct.kernel
def rows_kernel(
    x, weight, grad, dx, scales, EPS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    squares = ct.zeros(SHAPE, dev.acc_dtype(x))
    products, squares_lost, products_lost = squares, squares, squares
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        tile = dev.load_tile(x, place, 0.0, AXIS, SHAPE)
        pulled = dev.load_tile(grad, place, 0.0, AXIS, SHAPE) * dev.load_weights(weight, i, AXIS, SHAPE)
        squares, squares_lost = dev.accumulate(squares, squares_lost, tile * tile, x)
        products, products_lost = dev.accumulate(products, products_lost, tile * pulled, x)
    scale = dev.inverse_root(dev.row_mean(squares, squares_lost, x, AXIS), EPS)
    slope = dev.row_mean(products, products_lost, x, AXIS) * scale * scale
    ct.store(scales, (group, strip), ct.reshape(scale, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        tile = dev.load_tile(x, place, 0.0, AXIS, SHAPE)
        pulled = dev.load_tile(grad, place, 0.0, AXIS, SHAPE) * dev.load_weights(weight, i, AXIS, SHAPE)
        ct.store(dx, place, ct.astype(scale * (pulled - tile * slope), dx.dtype), allow_tma=False)


@ct.kernel
def weight_kernel(x, grad, scales, dweight, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """Each program sums one block of elements over all rows."""
    ct.grid_dependency_control_wait()
    total = ct.zeros(SHAPE, dev.acc_dtype(x))
    lost = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, 0, SHAPE) * ct.num_tiles(x, 3 - AXIS, SHAPE)):
        group, strip = dev.tile_coords(i, x, AXIS, SHAPE)
        place = dev.block_index(group, strip, ct.bid(0), AXIS)
        normal = dev.load_zero_padded(x, place, SHAPE) * dev.load_per_row(scales, group, strip, AXIS, SHAPE)
        total, lost = dev.add_exactly(total, lost, dev.load_zero_padded(grad, place, SHAPE) * normal)
    total = dev.add_rounding_error(total, lost)
    ct.store(dweight, (ct.bid(0),), ct.astype(ct.sum(total, (0, 3 - AXIS)), dweight.dtype), allow_tma=False)


@register("cutile", "rms_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, eps: float) -> Launch:
    """Two passes over rows write dx and the rows' scales. A second launch sums dweight over all rows."""
    id, tensors = "cutile/rms_norm_backward/rows", (x, weight, grad, dx, dweight)
    rows, others = layouts_of(x, dx, grad)
    tile, summed = tiles.short_rows_or_loop_tile(rows, device_of(x), 2), tiles.weight_grad_tile(rows)
    source, pulled, target = tiles.make_views(rows, tile, (x, grad, dx), others)
    scales = tiles.row_workspace(rows, tile, x)
    views = (source, pulled, scales, View(dweight, (rows.n,), dweight.stride()))
    programs, constants = cdiv(rows.n, summed.block_length), (summed.axis, summed.shape)
    second = bind_launch(id, weight_kernel, tensors, views, (), constants, programs, summed.warps)
    if rows.total == 0:
        return second
    held = (source, tiles.weight_view(tile, weight), pulled, target, scales)
    kinds = (tiles.float64_bits(eps), tile.axis, tile.shape)
    first = bind_launch(id, rows_kernel, tensors, held, (), kinds, tile.count_tiles(rows), tile.warps)
    return chain_launches(first, second)
