"""Device functions of several operations: where a row lies, and how its ends are read.

A row that starts or ends inside a 16-byte vector has *edges* there: fewer elements than a vector at either end of the
whole vectors in between.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import INTERPRETED as INTERPRETED
from kernelzoo.kernels.shared.device_functions import accumulate as accumulate
from kernelzoo.kernels.shared.device_functions import add_exactly as add_exactly
from kernelzoo.kernels.shared.device_functions import aligned as aligned
from kernelzoo.kernels.shared.device_functions import float8_bits as float8_bits
from kernelzoo.kernels.shared.device_functions import whole as whole


@triton.jit
def await_last_launch():
    """First in every kernel, before it touches memory: wait for the launch before this one to end.

    On NVIDIA from compute capability 9.0 on a launch is prepared while the one before it ends (programmatic dependent
    launch, see ``launch.compiler_options``). None lets the next begin early.
    """
    if not INTERPRETED and tl.target_info.cuda_capability_geq(9, 0):
        tl.extra.cuda.gdc_wait()


@triton.jit
def row_start(row, inner, stride_outer, stride_inner, MULTIPLE: tl.constexpr):
    """Offset of a row's first element; row in 64 bits, so that no product overflows."""
    return (row // inner * stride_outer + row % inner * stride_inner) * MULTIPLE


@triton.jit
def row_parts(start, n, in_rows, EDGES: tl.constexpr):
    """(inside, longest, edge, known): elements of rows' whole vectors and the most of them; columns of their edges."""
    if EDGES:
        before, inside = whole_vectors(start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        longest = tl.max(inside)
    else:  # no edges
        inside = n
        longest = n
        edge = start
        known = in_rows
    return inside, longest, edge, known


@triton.jit
def whole_vectors(start, n, VECTOR: tl.constexpr):
    """(before, inside): elements of a row ahead of its first aligned vector, and elements in whole vectors after."""
    before = tl.minimum((-start) & (VECTOR - 1), n)
    return before, (n - before) // VECTOR * VECTOR


@triton.jit
def edge_columns(lane, before, inside, n, VECTOR: tl.constexpr):
    """(columns, known) of the elements outside whole vectors, fewer than VECTOR at either end; 2 * VECTOR lanes."""
    cols = tl.where(lane < VECTOR, lane, before + inside + lane - VECTOR)
    return cols, tl.where(lane < VECTOR, lane < before, cols < n)


@triton.jit
def product(a, b):
    """A product that is rounded before lanes add it up. Fused with that sum, each lane would get other bits, and which
    of them is written isn't defined."""
    return tl.fma(a, b, 0.0)
