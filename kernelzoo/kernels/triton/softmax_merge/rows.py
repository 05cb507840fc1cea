import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, rounded_product, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, layouts_of, next_power_of_two
from kernelzoo.registry import register

TILE, PARTS = 1024, 64
"""The most pairs per tile, and the most parts of one row per tile."""


@triton.jit
def merge_kernel(
    maximum, total, largest, sum, rows, n, inner, m_outer, m_n, m_inner, t_outer, t_n, t_inner,
    l_outer, l_inner, s_outer, s_inner, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    parts = tl.arange(0, PARTS).to(tl.int64)[None, :]
    in_rows = row < rows
    maximum += row_start(row, inner, m_outer, m_inner, 1)
    total += row_start(row, inner, t_outer, t_inner, 1)
    top = tl.full([ROWS, 1], float("-inf"), ACC_DTYPE)
    for start in range(0, n, PARTS):
        part = start + parts
        one = tl.load(maximum + part * m_n, in_rows & (part < n), other=float("-inf"))
        top = tl.maximum(top, tl.max(one, 1, keep_dims=True))
    whole = tl.zeros_like(top)
    lost = tl.zeros_like(top)
    for start in range(0, n, PARTS):
        part = start + parts
        there = in_rows & (part < n)
        one = tl.load(maximum + part * m_n, there, other=float("-inf"))
        sums = tl.load(total + part * t_n, there, other=0.0)
        # Multiply twice by exp(distance / 2): exp(distance) may be subnormal where the term is a normal number.
        half = exponential((one - top) * 0.5)
        # A part of only -inf adds 0, not NaN, even if all parts are of only -inf.
        terms = tl.where(one == float("-inf"), sums * 0.0, rounded_product(sums * half, half))
        term = tl.sum(terms, 1, keep_dims=True)
        # The rounding error of each addition of a block is added to lost (D. E. Knuth's two-sum).
        new = whole + term
        back = new - whole
        lost += (whole - (new - back)) + (term - back)
        whole = new
    whole = tl.where(lost == lost, whole + lost, whole)
    top = tl.where(whole == whole, top, float("nan"))
    tl.store(largest + row_start(row, inner, l_outer, l_inner, 1), top, in_rows)
    tl.store(sum + row_start(row, inner, s_outer, s_inner, 1), whole, in_rows)


@register("triton", "softmax_merge", "rows")
def rows(maximum: torch.Tensor, total: torch.Tensor, largest: torch.Tensor, sum: torch.Tensor) -> Launch:
    """One pass over a row's parts finds the largest maximum. A second pass adds up the rescaled sums, in order."""
    where, (t, most) = layouts_of(maximum, sum, total, largest)
    parts = min(PARTS, next_power_of_two(where.n))
    side = min(next_power_of_two(where.planned), TILE // parts)
    strides = where.x_outer, where.x_n, where.x_inner, t.outer, t.n, t.inner
    outs = most.outer, most.inner, where.out_outer, where.out_inner
    constants = wide_type(maximum.dtype), side, parts
    args = (maximum, total, largest, sum, where.total, where.n, where.inner, *strides, *outs, *constants)
    warps = device_of(maximum).warps(128)
    return bind_grid("triton/softmax_merge/rows", merge_kernel, cdiv(where.total, side), args, warps, tensors=4)
