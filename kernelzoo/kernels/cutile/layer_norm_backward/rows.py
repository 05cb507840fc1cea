import cuda.tile as ct
from torch import Tensor

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import View, bind_launch, device_of
from kernelzoo.kernels.cutile.sum.rows import sum_rows
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import cdiv, layouts_of
from kernelzoo.registry import register


@ct.kernel
def rows_kernel(
    x, weight, grad, dx, means, scales, EPS: ct.Constant[int], FOLD: ct.Constant[int],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    mean = sum_rows(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), FOLD, AXIS, SHAPE) / x.shape[AXIS]
    zeros = ct.zeros(SHAPE, dev.acc_dtype(x))
    squares, products, total = zeros, zeros, zeros
    squares_lost, products_lost, total_lost = zeros, zeros, zeros
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        away = dev.load_tile(x, place, mean, AXIS, SHAPE) - mean
        pulled = dev.load_tile(grad, place, 0.0, AXIS, SHAPE) * dev.load_weights(weight, i, AXIS, SHAPE)
        squares, squares_lost = dev.accumulate(squares, squares_lost, away * away, x)
        products, products_lost = dev.accumulate(products, products_lost, away * pulled, x)
        total, total_lost = dev.accumulate(total, total_lost, pulled, x)
    scale = dev.inverse_root(dev.row_mean(squares, squares_lost, x, AXIS), EPS)
    slope = dev.row_mean(products, products_lost, x, AXIS) * scale
    level = dev.row_mean(total, total_lost, x, AXIS)
    ct.store(means, (group, strip), ct.reshape(mean, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)
    ct.store(scales, (group, strip), ct.reshape(scale, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        normal = (dev.load_tile(x, place, mean, AXIS, SHAPE) - mean) * scale
        pulled = dev.load_tile(grad, place, 0.0, AXIS, SHAPE) * dev.load_weights(weight, i, AXIS, SHAPE)
        ct.store(dx, place, ct.astype(scale * (pulled - level - normal * slope), dx.dtype), allow_tma=False)


@ct.kernel
def sums_kernel(x, grad, means, scales, dweight, dbias, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """Each program sums one block of elements over all rows."""
    ct.grid_dependency_control_wait()
    zeros = ct.zeros(SHAPE, dev.acc_dtype(x))
    of_weight, of_bias, weight_lost, bias_lost = zeros, zeros, zeros, zeros
    for i in range(ct.num_tiles(x, 0, SHAPE) * ct.num_tiles(x, 3 - AXIS, SHAPE)):
        group, strip = dev.tile_coords(i, x, AXIS, SHAPE)
        place = dev.block_index(group, strip, ct.bid(0), AXIS)
        away = dev.load_zero_padded(x, place, SHAPE) - dev.load_per_row(means, group, strip, AXIS, SHAPE)
        grads = dev.load_zero_padded(grad, place, SHAPE)
        normal = away * dev.load_per_row(scales, group, strip, AXIS, SHAPE)
        of_weight, weight_lost = dev.add_exactly(of_weight, weight_lost, grads * normal)
        of_bias, bias_lost = dev.add_exactly(of_bias, bias_lost, grads)
    of_weight, of_bias = dev.add_rounding_error(of_weight, weight_lost), dev.add_rounding_error(of_bias, bias_lost)
    ct.store(dweight, (ct.bid(0),), ct.astype(ct.sum(of_weight, (0, 3 - AXIS)), dweight.dtype), allow_tma=False)
    ct.store(dbias, (ct.bid(0),), ct.astype(ct.sum(of_bias, (0, 3 - AXIS)), dbias.dtype), allow_tma=False)


@register("cutile", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Three passes over rows write dx, means and scales. A second launch sums dweight and dbias over all rows."""
    id, tensors = "cutile/layer_norm_backward/rows", (x, weight, grad, dx, dweight, dbias)
    rows, others = layouts_of(x, dx, grad)
    tile, summed = tiles.short_rows_or_loop_tile(rows, device_of(x), 2), tiles.weight_grad_tile(rows)
    source, pulled, target = tiles.make_views(rows, tile, (x, grad, dx), others)
    of_rows = [tiles.row_workspace(rows, tile, x) for _ in range(2)]
    views = (source, pulled, *of_rows, *(View(out, (rows.n,), out.stride()) for out in (dweight, dbias)))
    programs, constants = cdiv(rows.n, summed.block_length), (summed.axis, summed.shape)
    second = bind_launch(id, sums_kernel, tensors, views, (), constants, programs, summed.warps)
    if rows.total == 0:
        return second
    held = (source, tiles.weight_view(tile, weight), pulled, target, *of_rows)
    kinds = (tiles.float64_bits(eps), tile.elements_per_lane(rows), tile.axis, tile.shape)
    first = bind_launch(id, rows_kernel, tensors, held, (), kinds, tile.count_tiles(rows), tile.warps)
    return chain_launches(first, second)
