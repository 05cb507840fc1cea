"""Device functions that several operations share: offsets of rows, and unaligned heads and tails of rows.

A row that starts or ends inside an aligned 16-byte vector has *edges*: a head and a tail shorter than a vector. EDGES
is the number of elements per vector, or 0 if no row has edges.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import INTERPRETED as INTERPRETED
from kernelzoo.kernels.shared.device_functions import accumulate as accumulate
from kernelzoo.kernels.shared.device_functions import add_exactly as add_exactly
from kernelzoo.kernels.shared.device_functions import add_up as add_up
from kernelzoo.kernels.shared.device_functions import align as align
from kernelzoo.kernels.shared.device_functions import float8_bits as float8_bits


@triton.jit
def await_last_launch():
    """Wait for the previous launch to end. Every kernel calls this first, before it touches memory.

    On NVIDIA GPUs of compute capability 9.0 and later, a launch is prepared while the previous one ends (programmatic
    dependent launch, see ``jit.compiler_options``). No kernel triggers the next launch before its own end.
    """
    if not INTERPRETED and tl.target_info.cuda_capability_geq(9, 0):
        tl.extra.cuda.gdc_wait()


@triton.jit
def row_start(row, inner, stride_outer, stride_inner, MULTIPLE: tl.constexpr):
    """Return the offset of a row's first element. row must have 64 bits, so that no product overflows."""
    return (row // inner * stride_outer + row % inner * stride_inner) * MULTIPLE


@triton.jit
def locate_body_and_edges(start, n, in_rows, EDGES: tl.constexpr):
    """Return (each row's elements in whole vectors, their maximum over rows, columns and mask of elements outside)."""
    if EDGES:
        before, inside = head_and_body(start, n, EDGES)
        edge, known = head_and_tail(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        longest = tl.max(inside)
    else:  # no edges
        inside = n
        longest = n
        edge = start
        known = in_rows
    return inside, longest, edge, known


@triton.jit
def head_and_body(start, n, VECTOR: tl.constexpr):
    """Return (elements of a row before its first aligned vector, elements in the complete vectors that follow)."""
    head = tl.minimum((-start) & (VECTOR - 1), n)
    return head, (n - head) // VECTOR * VECTOR


@triton.jit
def head_and_tail(lane, head, body, n, VECTOR: tl.constexpr):
    """Return (columns, mask) of a row's elements outside vectors. VECTOR lanes take the head, then VECTOR the tail."""
    cols = tl.where(lane < VECTOR, lane, head + body + lane - VECTOR)
    return cols, tl.where(lane < VECTOR, lane < head, cols < n)


@triton.jit
def rounded_product(a, b):
    """Return a * b, rounded, so that it can't be fused with an addition over lanes. After fused additions, lanes would
    hold different bits of the same sum, and any of them might be stored."""
    return tl.fma(a, b, 0.0)
