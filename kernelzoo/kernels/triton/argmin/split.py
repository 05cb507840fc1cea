import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import plan_parts
from kernelzoo.kernels.triton.argmin.rows import row_argmin
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.long_rows import load_parts, locate_rows_and_part, row_to_merge
from kernelzoo.kernels.triton.min.lowest import row_minima
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import min_identity, rows_of
from kernelzoo.registry import register


@triton.jit
def parts_kernel(
    x, out, least, places, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, IDENTITY: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    row, begin, end, left = locate_rows_and_part(tl.cast(n, tl.int64) * MULTIPLE, parts, span, ROWS)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    minima, place = row_argmin(x, x_start, x_n, begin, end, row < rows, IDENTITY, ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR)
    tl.store(least + left, minima, row < rows)
    tl.store(places + left, place, row < rows)


@triton.jit
def first_kernel(
    x, out, least, places, parts, inner, out_outer, out_inner, IDENTITY: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    await_last_launch()
    row = row_to_merge()
    part_least = load_parts(least, row, parts, IDENTITY, PARTS)
    place = load_parts(places, row, parts, 0x7FFFFFFFFFFFFFFF, PARTS)
    row_least = row_minima(part_least)[:, None]
    has = (part_least == row_least) | ((part_least != part_least) & (row_least != row_least))
    place = tl.min(tl.where(has, place, 0x7FFFFFFFFFFFFFFF), 1, keep_dims=True)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), place)


@register("triton", "argmin", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces part of a row as ``rows`` does. A second launch takes the first part with the minimum."""
    rows = rows_of(x, out)
    plan, id, none = plan_parts(x, rows), "triton/argmin/split", min_identity(x.dtype)
    least = x.new_empty((rows.total, plan.parts), dtype=wide_dtype(x.dtype))
    left = (x, out, least, x.new_empty(least.shape, dtype=torch.int64))
    kinds = (plan.parts, plan.span, none, wide_type(x.dtype))
    args = (*left, *row_arguments(rows), *kinds, *plan.tile.constants)
    first = bind_grid(id, parts_kernel, plan.programs, args, plan.tile.warps)
    args = (*left, plan.parts, rows.inner, rows.out_outer, rows.out_inner, none, plan.padded_parts)
    return chain_launches(first, bind_grid(id, first_kernel, rows.total, args, 1))
