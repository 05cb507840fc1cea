import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import add_carry, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.launch import Launch
from kernelzoo.registry import register

BLOCK = 256
"""Elements that are summed at a time. LLVM chooses the order of their additions, by their number."""

STRIDED = 16
"""Elements that are summed at a time if they are strided: LLVM can't vectorise this, and adds in sequence."""


@njit
def block_length(*steps):
    """Return the number of elements to sum at a time: fewer if any of ``steps``, the strides of elements, isn't 1."""
    block = np.uint64(BLOCK)
    for step in steps:
        if step != np.uint64(1):
            block = np.uint64(STRIDED)
    return block


@njit(fastmath={"reassoc"})
def block_sum(x, at, step, n, zero):
    total = zero
    if step == np.uint64(1):
        for j in range(n):
            total += widen(x[at + j])
    else:
        for j in range(n):
            total += widen(x[at + j * step])
    return total


@parallel_kernel()
def _floats(x, out, n, lanes, xg, xn, xl, og, ol, first, last):
    n, step = np.uint64(n), np.uint64(xn)
    block, zero = block_length(step), zero_sum(x)
    for row in range(first, last):
        at, total, carry = offset(row, lanes, xg, xl), zero, zero
        for j in range(np.uint64(0), n, block):
            total, carry = two_sum(total, carry, block_sum(x, at + j * step, step, min(block, n - j), zero))
        to = offset(row, lanes, og, ol)
        out[to] = round_like(add_carry(total, carry), out[to])


@parallel_kernel()
def _integers(x, out, n, lanes, xg, xn, xl, og, ol, first, last):
    for row in range(first, last):
        at, total = offset(row, lanes, xg, xl), np.int64(0)
        for j in range(np.uint64(n)):
            total += np.int64(x[at + j * np.uint64(xn)])
        out[offset(row, lanes, og, ol)] = total


@register("cpu", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Blocks of a row are summed, then the blocks' sums with their rounding errors. Rows run in parallel."""
    kernel = _floats if x.is_floating_point() else _integers
    return bind_launch(kernel, move_lanes_last(x, out), x.size(0) * x.size(2))
