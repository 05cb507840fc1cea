"""Sums over all rows: each program of a launch leaves its own, and another launch adds these up."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv

ROWS, BLOCK = 16, 64


@triton.jit
def add_in_memory(partials, here, n, terms):
    """Add to a program's own sums. Several threads may load what one stores: in its next turn, after a barrier."""
    terms += tl.load(partials + here, here < n, other=0)
    tl.debug_barrier()
    tl.store(partials + here, terms, here < n)
    tl.debug_barrier()


@triton.jit
def partials_kernel(out, partials, count, n, out_n, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    await_last_launch()
    row, col = tl.arange(0, ROWS)[:, None], tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    for first in range(0, count, ROWS):
        here = tl.cast(first, tl.int64) + row
        sums += tl.load(partials + (here * n + col), (here < count) & (col < n), other=0)
    tl.store(out + col * out_n, tl.sum(sums, 0, keep_dims=True).to(out.dtype.element_ty), col < n)


def sum_of_partials(id: str, partials: torch.Tensor, out: torch.Tensor) -> Launch:
    """The launch that writes the sums of the rows of partials (count, n) to out (n), in the same order each time."""
    count, n = partials.shape
    args = (out, partials, count, n, out.stride(0), wide_type(partials.dtype), ROWS, BLOCK)
    return bound(id, out, partials_kernel, cdiv(n, BLOCK), args, 4, tensors=1)
