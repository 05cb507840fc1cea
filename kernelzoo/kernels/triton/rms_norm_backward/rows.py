import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.row_tiles import persistent_tile
from kernelzoo.kernels.triton.device_functions import accumulate, add_up, await_last_launch, rounded_product, row_start
from kernelzoo.kernels.triton.partials import add_sums, launch_partials_sum, store_sums, zero_sums
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def rows_kernel(
    x, weight, grad, dx, dweight, partials, rows, n, inner, x_outer, x_n, x_inner, dx_outer, dx_n, dx_inner,
    MULTIPLE: tl.constexpr, grad_outer, grad_n, grad_inner, weight_n,
    EPS: tl.constexpr, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Write dx, and the program's sums for dweight. If WHOLE, a block covers a row, and the sums stay in registers."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    partials += tl.program_id(0).to(tl.int64) * n
    sums, lost = zero_sums(partials, n, ACC_DTYPE, BLOCK, WHOLE)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (tl.cast(first, tl.int64) + tl.arange(0, ROWS))[:, None]
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
        dx_start = row_start(row, inner, dx_outer, dx_inner, MULTIPLE)
        squares = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
        products, squares_lost, products_lost = squares, squares, squares
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = (row < rows) & (here < n)
            tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
            pulled = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(ACC_DTYPE)
            pulled *= tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            squares, squares_lost = accumulate(squares, squares_lost, tile * tile, WHOLE)
            products, products_lost = accumulate(products, products_lost, tile * pulled, WHOLE)
        scale = 1 / tl.sqrt(tl.sum(add_up(squares, squares_lost), 1, keep_dims=True) / n + EPS)
        slope = tl.sum(add_up(products, products_lost), 1, keep_dims=True) / n * scale * scale
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = (row < rows) & (here < n)
            tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
            grads = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(ACC_DTYPE)
            weights = tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            result = scale * (grads * weights - tile * slope)
            tl.store(dx + (dx_start + here * dx_n), result.to(dx.dtype.element_ty), mask)
            terms = tl.sum(rounded_product(grads, tile * scale), 0, keep_dims=True)
            sums, lost = add_sums(partials, here, n, sums, lost, terms, WHOLE)
    store_sums(partials, n, sums, lost, BLOCK, WHOLE)


@register("triton", "rms_norm_backward", "rows")
def rows(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, eps: float
) -> Launch:
    """Programs stride over rows, two passes per row. A second launch adds up the programs' sums for the weight."""
    id, tensors = "triton/rms_norm_backward/rows", (x, weight, grad, dx, dweight)
    rows, (others,) = layouts_of(x, dx, grad)
    tile = persistent_tile(x, rows, 2)
    partials = x.new_empty((tile.programs, rows.n), dtype=wide_dtype(x.dtype))
    constants = (eps, wide_type(x.dtype), tile.rows, tile.block, tile.block >= rows.n)
    args = (*tensors, partials, *row_arguments(rows, others), weight.stride(0), *constants)
    first = bind_grid(id, rows_kernel, tile.programs, args, tile.warps, tensors=5)
    return chain_launches(first, launch_partials_sum(id, partials, dweight))
