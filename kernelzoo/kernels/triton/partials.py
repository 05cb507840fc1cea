"""Sums over rows, one per column. One launch stores the partial sums of each program, a second adds them up."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, wide_type
from kernelzoo.kernels.triton.device_functions import add_exactly, add_up, await_last_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv

ROWS, BLOCK = 16, 64


@triton.jit
def zero_sums(partials, n, ACC_DTYPE: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """Return zeros as initial (sums, rounding errors). If not WHOLE (a block is a row), also zero ``partials``."""
    sums = tl.zeros([1, BLOCK], ACC_DTYPE)
    if not WHOLE:
        for start in range(0, n, BLOCK):
            here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
            tl.store(partials + here, sums, here < n)
    return sums, sums


@triton.jit
def add_sums(partials, cols, n, sums, lost, terms, WHOLE: tl.constexpr):
    """Add terms at the columns ``cols``. Return (sums, rounding errors). If not WHOLE, the sums are in ``partials``."""
    if WHOLE:
        sums, lost = add_exactly(sums, lost, terms)
    else:
        terms += tl.load(partials + cols, cols < n, other=0)
        tl.debug_barrier()  # what one thread stores, others load in the next call
        tl.store(partials + cols, terms, cols < n)
        tl.debug_barrier()
    return sums, lost


@triton.jit
def store_sums(partials, n, sums, lost, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    if WHOLE:
        cols = tl.arange(0, BLOCK)[None, :]
        tl.store(partials + cols, add_up(sums, lost), cols < n)


@triton.jit
def partials_kernel(out, partials, count, n, out_n, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    await_last_launch()
    row, col = tl.arange(0, ROWS)[:, None], tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    for first in range(0, count, ROWS):
        here = tl.cast(first, tl.int64) + row
        sums += tl.load(partials + (here * n + col), (here < count) & (col < n), other=0)
    tl.store(out + col * out_n, tl.sum(sums, 0, keep_dims=True).to(out.dtype.element_ty), col < n)


def launch_partials_sum(id: str, partials: torch.Tensor, out: torch.Tensor) -> Launch:
    """Return the launch that sums partials (count, n) over axis 0 into out (n), always in the same order."""
    count, n = partials.shape
    args = (out, partials, count, n, out.stride(0), wide_type(partials.dtype), ROWS, BLOCK)
    return bind_grid(id, partials_kernel, cdiv(n, BLOCK), args, 4, tensors=1)
