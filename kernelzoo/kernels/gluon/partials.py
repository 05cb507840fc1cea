"""Sums over rows, one per column. One launch stores the partial sums of each program, a second adds them up."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.shared.jit import bind_grid, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv

ROWS, BLOCK, WARPS = 16, 64, 4
LAYOUT = gl.BlockedLayout([1, 2], [1, 32], [WARPS, 1], [1, 0])


@gluon.jit
def add_sums(partials, cols, n, first, sums, lost, terms, WHOLE: gl.constexpr):
    """Add terms to a program's sums at the columns ``cols``. Return the sums and rounding errors in registers.

    WHOLE: a block covers all columns. Otherwise the sums are in ``partials``, and are overwritten if ``first``.
    """
    if WHOLE:
        sums, lost = dev.add_exactly(sums, lost, terms)
    else:
        terms += gl.load(partials + cols, (cols < n) & (first == 0), other=0)
        dev.barrier()  # what one thread stores, others load in the next call
        gl.store(partials + cols, terms, cols < n)
        dev.barrier()
    return sums, lost


@gluon.jit
def store_sums(partials, cols, n, sums, lost, WHOLE: gl.constexpr):
    if WHOLE:
        gl.store(partials + cols, dev.add_up(sums, lost), cols < n)


@gluon.jit
def partials_kernel(
    out, partials, count, n, out_n, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr,
    LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    row = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))[:, None]
    col = gl.program_id(0).to(gl.int64) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    sums = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    for first in range(0, count, ROWS):
        here = gl.cast(first, gl.int64) + row
        sums += gl.load(partials + (here * n + col), (here < count) & (col < n), other=0)
    gl.store(out + col * out_n, gl.sum(sums, 0, keep_dims=True).to(out.dtype.element_ty), col < n)


def launch_partials_sum(id: str, partials: torch.Tensor, out: torch.Tensor) -> Launch:
    """Return the launch that sums partials (count, n) over axis 0 into out (n), always in the same order."""
    count, n = partials.shape
    args = (out, partials, count, n, out.stride(0), wide_type(partials.dtype), ROWS, BLOCK, LAYOUT)
    return bind_grid(id, partials_kernel, cdiv(n, BLOCK), args, WARPS, tensors=1)
