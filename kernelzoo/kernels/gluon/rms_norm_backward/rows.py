import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.partials import add_sums, launch_partials_sum, store_sums
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.row_tiles import persistent_tile
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def rows_kernel(
    x, weight, grad, dx, dweight, partials, rows, n, inner, x_outer, x_n, x_inner, dx_outer, dx_n, dx_inner,
    MULTIPLE: gl.constexpr, grad_outer, grad_n, grad_inner, weight_n, EPS: gl.constexpr, WHOLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Write dx, and the program's sums for dweight. If WHOLE, a block covers a row, and the sums stay in registers."""
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    partials += gl.program_id(0).to(gl.int64) * n
    sums = gl.full([1, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    lost = gl.full([1, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    for tile in range(gl.program_id(0), gl.cdiv(gl.cast(rows, gl.int64), ROWS), gl.num_programs(0)):
        group, place, there = dev.row_coords(tile, rows, inner, False, ROWS, LAYOUT)
        x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
        grad_rows = grad + dev.row_start(group, place, grad_outer, grad_inner, MULTIPLE)[:, None]
        dx_rows = dx + dev.row_start(group, place, dx_outer, dx_inner, MULTIPLE)[:, None]
        squares = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
        products, squares_lost, products_lost = squares, squares, squares
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = there[:, None] & (here < n)
            values = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
            pulled = gl.load(grad_rows + here * grad_n, mask, other=0).to(ACC_DTYPE)
            pulled *= gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            squares, squares_lost = dev.accumulate(squares, squares_lost, values * values, WHOLE)
            products, products_lost = dev.accumulate(products, products_lost, values * pulled, WHOLE)
        scale = 1 / gl.sqrt(gl.sum(dev.add_up(squares, squares_lost), 1, keep_dims=True) / n + EPS)
        slope = gl.sum(dev.add_up(products, products_lost), 1, keep_dims=True) / n * scale * scale
        for start in range(0, n, BLOCK):
            here = start + cols
            mask = there[:, None] & (here < n)
            values = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
            grads = gl.load(grad_rows + here * grad_n, mask, other=0).to(ACC_DTYPE)
            weights = gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
            result = scale * (grads * weights - values * slope)
            gl.store(dx_rows + here * dx_n, result.to(dx.dtype.element_ty), mask)
            terms = gl.sum(grads * (values * scale), 0, keep_dims=True)
            sums, lost = add_sums(partials, here, n, tile == gl.program_id(0), sums, lost, terms, WHOLE)
    store_sums(partials, cols, n, sums, lost, WHOLE)


@register("gluon", "rms_norm_backward", "rows")
def rows(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, eps: float
) -> Launch:
    """Programs stride over rows, two passes per row. A second launch adds up the programs' sums for the weight."""
    id, tensors = "gluon/rms_norm_backward/rows", (x, weight, grad, dx, dweight)
    rows, (others,) = layouts_of(x, dx, grad)
    programs, warps, *tile = make_tile_launch_arguments(rows, persistent_tile(x, rows, 2))
    partials = x.new_zeros((programs, rows.n), dtype=wide_dtype(x.dtype))  # they stay 0 if there is no row
    constants = (eps, tile[1] >= rows.n, wide_type(x.dtype), *tile)
    args = (*tensors, partials, *row_arguments(rows, others), weight.stride(0), *constants)
    first = bind_grid(id, rows_kernel, programs, args, warps, tensors=5)
    return chain_launches(first, launch_partials_sum(id, partials, dweight))
