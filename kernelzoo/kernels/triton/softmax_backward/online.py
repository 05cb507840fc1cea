import torch
import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import aligned, await_last_launch, row_parts, row_start
from kernelzoo.kernels.triton.passes import over_blocks
from kernelzoo.kernels.triton.softmax_backward.device_functions import sum_of_products
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def online_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    in_rows = row < rows
    inside, longest, edge, known = row_parts(grad_start, n, in_rows, EDGES)
    if EDGES:
        grad_edges = tl.load(grad + (grad_start + edge), known, other=0).to(WIDE)
        y_edges = tl.load(y + (y_start + edge), known, other=0).to(WIDE)
        out_edges = out + (out_start + edge)
    grad_start = aligned(grad_start, EDGES)
    y_start = aligned(y_start, EDGES)
    out_start = aligned(out_start, EDGES)
    total = sum_of_products(
        grad, grad_start, grad_n, y, y_start, y_n, cols, in_rows, inside, longest, WIDE, ROWS, BLOCK
    )
    if EDGES:
        total += tl.sum(grad_edges * y_edges, 1, keep_dims=True)
        tl.store(out_edges, (y_edges * (grad_edges - total)).to(DTYPE), known)
    blocks = tl.cdiv(longest, BLOCK)
    for i in range(blocks):
        here = (blocks - 1 - i) * BLOCK + cols  # backwards: what was read last is likeliest to be in a cache still
        mask = in_rows & (here < inside)
        grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(WIDE)
        y_tile = tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
        tl.store(out + (out_start + here * out_n), (y_tile * (grad_tile - total)).to(DTYPE), mask)


@register("triton", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum in each lane, then a pass that reads again and writes."""
    return over_blocks("triton/softmax_backward/online", online_kernel, (grad, y, out), whole=2, least=0)
