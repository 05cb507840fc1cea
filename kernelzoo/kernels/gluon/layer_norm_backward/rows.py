from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.layer_norm.device_functions import row_means
from kernelzoo.kernels.gluon.partials import add_sums, launch_partials_sum, store_sums
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.row_tiles import persistent_tile
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def rows_kernel(
    x, weight, grad, dx, dweight, dbias, partials, rows, n, inner, x_outer, x_n, x_inner, dx_outer, dx_n, dx_inner,
    MULTIPLE: gl.constexpr, grad_outer, grad_n, grad_inner, weight_n, EPS: gl.constexpr, WHOLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Write dx and the program's sums for dweight and dbias. If WHOLE, a block is a row: sums stay in registers."""
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    of_weight = partials + gl.program_id(0).to(gl.int64) * n
    of_bias = of_weight + gl.num_programs(0).to(gl.int64) * n
    zeros = gl.full([1, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    weight_sums, weight_lost, bias_sums, bias_lost = zeros, zeros, zeros, zeros
    for tile in range(gl.program_id(0), gl.cdiv(gl.cast(rows, gl.int64), ROWS), gl.num_programs(0)):
        group, place, there = dev.row_coords(tile, rows, inner, False, ROWS, LAYOUT)
        x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
        grad_rows = grad + dev.row_start(group, place, grad_outer, grad_inner, MULTIPLE)[:, None]
        dx_rows = dx + dev.row_start(group, place, dx_outer, dx_inner, MULTIPLE)[:, None]
        mean = row_means(x_rows, x_n, n, cols, there, ACC_DTYPE, ROWS, BLOCK, LAYOUT, WHOLE)
        nothing = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
        squares, products, total = nothing, nothing, nothing
        squares_lost, products_lost, total_lost = nothing, nothing, nothing
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = there[:, None] & (here < n)
            away = gl.where(mask, gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE) - mean, 0.0)
            pulled = gl.load(grad_rows + here * grad_n, mask, other=0).to(ACC_DTYPE)
            pulled *= gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            squares, squares_lost = dev.accumulate(squares, squares_lost, away * away, WHOLE)
            products, products_lost = dev.accumulate(products, products_lost, away * pulled, WHOLE)
            total, total_lost = dev.accumulate(total, total_lost, pulled, WHOLE)
        scale = 1 / gl.sqrt(gl.sum(dev.add_up(squares, squares_lost), 1, keep_dims=True) / n + EPS)
        slope = gl.sum(dev.add_up(products, products_lost), 1, keep_dims=True) / n * scale
        level = gl.sum(dev.add_up(total, total_lost), 1, keep_dims=True) / n
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = there[:, None] & (here < n)
            normal = gl.where(mask, gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE) - mean, 0.0) * scale
            grads = gl.load(grad_rows + here * grad_n, mask, other=0).to(ACC_DTYPE)
            weights = gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            result = scale * (grads * weights - level - normal * slope)
            gl.store(dx_rows + here * dx_n, result.to(dx.dtype.element_ty), mask)
            terms, first = gl.sum(grads * normal, 0, keep_dims=True), tile == gl.program_id(0)
            weight_sums, weight_lost = add_sums(of_weight, here, n, first, weight_sums, weight_lost, terms, WHOLE)
            terms = gl.sum(grads, 0, keep_dims=True)
            bias_sums, bias_lost = add_sums(of_bias, here, n, first, bias_sums, bias_lost, terms, WHOLE)
    store_sums(of_weight, cols, n, weight_sums, weight_lost, WHOLE)
    store_sums(of_bias, cols, n, bias_sums, bias_lost, WHOLE)


@register("gluon", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Programs stride over rows, three passes per row. Later launches add up the programs' sums for weight and bias."""
    id, tensors = "gluon/layer_norm_backward/rows", (x, weight, grad, dx, dweight, dbias)
    rows, (others,) = layouts_of(x, dx, grad)
    programs, warps, *tile = make_tile_launch_arguments(rows, persistent_tile(x, rows, 2))
    partials = x.new_zeros((2, programs, rows.n), dtype=wide_dtype(x.dtype))  # they stay 0 if there is no row
    constants = (eps, tile[1] >= rows.n, wide_type(x.dtype), *tile)
    args = (*tensors, partials, *row_arguments(rows, others), weight.stride(0), *constants)
    first = bind_grid(id, rows_kernel, programs, args, warps, tensors=6)
    return chain_launches(first, *(launch_partials_sum(id, partials[i], out) for i, out in enumerate((dweight, dbias))))
