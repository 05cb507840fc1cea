import triton
import triton.language as tl
from torch import Tensor

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.row_tiles import persistent_tile
from kernelzoo.kernels.triton.device_functions import accumulate, add_up, await_last_launch, rounded_product, row_start
from kernelzoo.kernels.triton.layer_norm.rows import row_mean
from kernelzoo.kernels.triton.partials import add_sums, launch_partials_sum, store_sums, zero_sums
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def rows_kernel(
    x, weight, grad, dx, dweight, dbias, partials, rows, n, inner, x_outer, x_n, x_inner, dx_outer, dx_n, dx_inner,
    MULTIPLE: tl.constexpr, grad_outer, grad_n, grad_inner, weight_n,
    EPS: tl.constexpr, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Write dx and the program's sums for dweight and dbias. If WHOLE, a block is a row: sums stay in registers."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    of_weight = partials + tl.program_id(0).to(tl.int64) * n
    of_bias = of_weight + tl.num_programs(0).to(tl.int64) * n
    weight_sums, weight_lost = zero_sums(of_weight, n, ACC_DTYPE, BLOCK, WHOLE)
    bias_sums, bias_lost = zero_sums(of_bias, n, ACC_DTYPE, BLOCK, WHOLE)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (tl.cast(first, tl.int64) + tl.arange(0, ROWS))[:, None]
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
        dx_start = row_start(row, inner, dx_outer, dx_inner, MULTIPLE)
        mean = row_mean(x, x_start, x_n, n, row < rows, ACC_DTYPE, ROWS, BLOCK, WHOLE)
        zeros = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
        squares, products, total = zeros, zeros, zeros
        squares_lost, products_lost, total_lost = zeros, zeros, zeros
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = (row < rows) & (here < n)
            away = tl.where(mask, tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE) - mean, 0)
            pulled = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(ACC_DTYPE)
            pulled *= tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            squares, squares_lost = accumulate(squares, squares_lost, away * away, WHOLE)
            products, products_lost = accumulate(products, products_lost, away * pulled, WHOLE)
            total, total_lost = accumulate(total, total_lost, pulled, WHOLE)
        scale = 1 / tl.sqrt(tl.sum(add_up(squares, squares_lost), 1, keep_dims=True) / n + EPS)
        slope = tl.sum(add_up(products, products_lost), 1, keep_dims=True) / n * scale
        level = tl.sum(add_up(total, total_lost), 1, keep_dims=True) / n
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = (row < rows) & (here < n)
            normal = tl.where(mask, tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE) - mean, 0) * scale
            grads = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(ACC_DTYPE)
            weights = tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            result = scale * (grads * weights - level - normal * slope)
            tl.store(dx + (dx_start + here * dx_n), result.to(dx.dtype.element_ty), mask)
            terms = tl.sum(rounded_product(grads, normal), 0, keep_dims=True)
            weight_sums, weight_lost = add_sums(of_weight, here, n, weight_sums, weight_lost, terms, WHOLE)
            terms = tl.sum(grads, 0, keep_dims=True)
            bias_sums, bias_lost = add_sums(of_bias, here, n, bias_sums, bias_lost, terms, WHOLE)
    store_sums(of_weight, n, weight_sums, weight_lost, BLOCK, WHOLE)
    store_sums(of_bias, n, bias_sums, bias_lost, BLOCK, WHOLE)


@register("triton", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Programs stride over rows, three passes per row. Later launches add up the programs' sums for weight and bias."""
    id, tensors = "triton/layer_norm_backward/rows", (x, weight, grad, dx, dweight, dbias)
    rows, (others,) = layouts_of(x, dx, grad)
    tile = persistent_tile(x, rows, 2)
    partials = x.new_empty((2, tile.programs, rows.n), dtype=wide_dtype(x.dtype))
    constants = (eps, wide_type(x.dtype), tile.rows, tile.block, tile.block >= rows.n)
    args = (*tensors, partials, *row_arguments(rows, others), weight.stride(0), *constants)
    first = bind_grid(id, rows_kernel, tile.programs, args, tile.warps, tensors=6)
    return chain_launches(first, *(launch_partials_sum(id, partials[i], out) for i, out in enumerate((dweight, dbias))))
