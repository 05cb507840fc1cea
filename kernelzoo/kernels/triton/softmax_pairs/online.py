import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import wide_dtype
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.passes import launch_blocks
from kernelzoo.kernels.triton.softmax.device_functions import online_state
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def pairs_kernel(
    x, maximum, total, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    m_outer, m_inner,
    ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    in_rows = row < rows
    inside, longest, edge, known = locate_body_and_edges(x_start, n, in_rows, EDGES)
    edges = tl.load(x + (x_start + edge), known, other=float("-inf")).to(ACC_DTYPE) if EDGES else x_start
    x_start = align(x_start, EDGES)
    top, sums, _ = online_state(
        x, x_start, x_n, cols, in_rows, inside, longest, edges, LOWEST, ACC_DTYPE, EDGES, ROWS, BLOCK
    )
    # The sum of a row of only -inf is 0. The maximum drops a NaN, but the sum is NaN.
    top = tl.where(sums == 0, float("-inf"), tl.where(sums == sums, top, float("nan")))
    tl.store(maximum + row_start(row, inner, m_outer, m_inner, 1), top, in_rows)
    tl.store(total + row_start(row, inner, out_outer, out_inner, 1), sums, in_rows)


@register("triton", "softmax_pairs", "online")
def online(x: torch.Tensor, maximum: torch.Tensor, total: torch.Tensor) -> Launch:
    """One pass over column blocks keeps a running (max, sum) state in each lane: one read.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    lowest = torch.finfo(wide_dtype(x.dtype)).min
    return launch_blocks("triton/softmax_pairs/online", pairs_kernel, (x, maximum, total), kernel_constants=(lowest,))
