"""Programs share the reduced axis; each lowers the output by atomics as soon as it has a tile of rows."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.min.atomics import by_atomics, send
from kernelzoo.kernels.triton.min.lowest import body_and_edges, end_of_vectors, folded, lower, lowest, nothing_yet
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit(do_not_specialize=["blocks", "pieces"])
def atomic_eager_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, blocks, pieces, WIDE: tl.constexpr, IDENTITY: tl.constexpr,
    EDGES: tl.constexpr, FOLD: tl.constexpr,
    TILES: tl.constexpr, BLOCK_M: tl.constexpr, SUB_BLOCK_N: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    block = (program % blocks).to(tl.int64)
    first = (program // blocks).to(tl.int64) * (TILES * BLOCK_M)
    cols = tl.arange(0, SUB_BLOCK_N).to(tl.int64)
    start_n = block * pieces * SUB_BLOCK_N
    end_n = tl.minimum(start_n + tl.cast(pieces, tl.int64) * SUB_BLOCK_N, end_of_vectors(n, EDGES))
    for tile in range(TILES):
        if first + tile * BLOCK_M < rows:
            row = first + tile * BLOCK_M + tl.arange(0, BLOCK_M)
            x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
            in_rows = (row < rows)[:, None]
            # Of the edges, every block may take them: a minimum doesn't mind to see an element twice.
            start, columns, edges = body_and_edges(x, x_start, n, in_rows, WIDE, IDENTITY, EDGES, BLOCK_M)
            least = nothing_yet(n, BLOCK_M, SUB_BLOCK_N, WIDE, IDENTITY)
            for first_n in range(start_n, end_n, SUB_BLOCK_N):
                here = first_n + cols[None, :]
                mask = in_rows & (here < columns)
                piece = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
                least = lower(least, piece.to(WIDE))
            result = lower(lowest(folded(least, BLOCK_M, SUB_BLOCK_N, FOLD), 1), lowest(edges, 1))
            send(out + row_start(row, inner, out_outer, out_inner, 1), result, row < rows)


@register("triton", "min", "atomic_eager")
def atomic_eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over the reduced axis; each row tile's minima go out by atomics at once. Fills its output first."""
    return by_atomics("triton/min/atomic_eager", atomic_eager_kernel, x, out)
