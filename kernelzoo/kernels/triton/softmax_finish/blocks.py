import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential, quotient
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.passes import launch_blocks
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def softmax_element(element, top, total):
    """Return exp(min(element - top, 0)) / total. A NaN stays NaN."""
    depth = element - top
    return quotient(exponential(tl.where(depth > 0, 0.0, depth)), total)


@triton.jit
def finish_kernel(
    x, maximum, total, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    m_outer, m_inner, t_outer, t_inner, blocks,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    # Backwards: what ``softmax_pairs`` read last is likely still in L2.
    program = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    row = (program // blocks * ROWS + tl.arange(0, ROWS))[:, None]
    first = program % blocks * BLOCK
    here = first + tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    top = tl.load(maximum + row_start(row, inner, m_outer, m_inner, 1), in_rows, other=0.0)
    sums = tl.load(total + row_start(row, inner, t_outer, t_inner, 1), in_rows, other=1.0)
    inside, _, edge, known = locate_body_and_edges(x_start, n, in_rows, EDGES)
    if EDGES:
        known = known & (first == 0)
        edges = tl.load(x + (x_start + edge), known, other=0.0).to(ACC_DTYPE)
        tl.store(out + (out_start + edge), softmax_element(edges, top, sums).to(DTYPE), known)
    x_start = align(x_start, EDGES)
    out_start = align(out_start, EDGES)
    mask = in_rows & (here < inside)
    tile = tl.load(x + (x_start + here * x_n), mask, other=0.0).to(ACC_DTYPE)
    tl.store(out + (out_start + here * out_n), softmax_element(tile, top, sums).to(DTYPE), mask)


@register("triton", "softmax_finish", "blocks")
def blocks(x: torch.Tensor, maximum: torch.Tensor, total: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes one block of a row: one read, one write."""
    return launch_blocks("triton/softmax_finish/blocks", finish_kernel, (x, maximum, total, out), one_block=True)
