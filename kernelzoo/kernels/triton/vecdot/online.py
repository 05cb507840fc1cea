import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import TOGETHER
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.passes import launch_blocks
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def dot_kernel(
    x, y, total, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_n, y_inner,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum x * y over each row. Each lane keeps a sum. Lanes are added up after every TOGETHER (256) blocks."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    in_rows = row < rows
    inside, longest, edge, known = locate_body_and_edges(x_start, n, in_rows, EDGES)
    if EDGES:
        edges = tl.load(x + (x_start + edge), known, other=0).to(ACC_DTYPE)
        edges *= tl.load(y + (y_start + edge), known, other=0).to(ACC_DTYPE)
    x_start = align(x_start, EDGES)
    y_start = align(y_start, EDGES)
    result = tl.zeros([ROWS, 1], ACC_DTYPE)
    sums = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    for start in range(0, longest, BLOCK):
        here = start + cols
        mask = in_rows & (here < inside)
        tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
        sums += tile * tl.load(y + (y_start + here * y_n), mask, other=0).to(ACC_DTYPE)
        if (tl.cast(start, tl.int64) % (TOGETHER * BLOCK) == (TOGETHER - 1) * BLOCK) | (start + BLOCK >= longest):
            result += tl.sum(sums, 1, keep_dims=True)
            sums = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    if EDGES:
        result += tl.sum(edges, 1, keep_dims=True)
    tl.store(total + row_start(row, inner, out_outer, out_inner, 1), result, in_rows)


@register("triton", "vecdot", "online")
def online(x: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> Launch:
    """One pass over column blocks keeps a running sum of x * y in each lane: both inputs are read once."""
    return launch_blocks("triton/vecdot/online", dot_kernel, (x, y, total), row_inputs=2)
