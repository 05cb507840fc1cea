import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import shares_of
from kernelzoo.kernels.triton.device_functions import aligned, await_last_launch, row_parts, row_start
from kernelzoo.kernels.triton.min_backward.device_functions import count_minima
from kernelzoo.kernels.triton.passes import over_blocks
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def online_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(WIDE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), in_rows, other=0).to(WIDE)
    inside, longest, edge, known = row_parts(x_start, n, in_rows, EDGES)
    if EDGES:
        edges_equal = tl.load(x + (x_start + edge), known, other=float("nan")).to(WIDE) == least
        out_edges = out + (out_start + edge)
    x_start = aligned(x_start, EDGES)
    out_start = aligned(out_start, EDGES)
    count = count_minima(x, x_start, x_n, cols, in_rows, inside, longest, least, WIDE, ROWS, BLOCK)
    if EDGES:
        count += tl.sum(edges_equal.to(tl.int64), 1, keep_dims=True)
    each, rest = shares_of(slope, count, DTYPE)
    if EDGES:
        tl.store(out_edges, tl.where(edges_equal, each, rest), known)
    blocks = tl.cdiv(longest, BLOCK)
    for i in range(blocks):
        here = (blocks - 1 - i) * BLOCK + cols  # backwards: what was read last is likeliest to be in a cache still
        mask = in_rows & (here < inside)
        equal = tl.load(x + (x_start + here * x_n), mask, other=float("nan")).to(WIDE) == least
        tl.store(out + (out_start + here * out_n), tl.where(equal, each, rest), mask)


@register("triton", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running count in each lane, then a pass that reads again and writes."""
    return over_blocks("triton/min_backward/online", online_kernel, (x, y, grad, out), least=0)
