import torch
import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.passes import launch_blocks
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def count_kernel(
    x, y, count, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, y_outer,
    y_inner, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count each row's elements equal to y. Each lane counts in 32 bits. Lanes are added up at the end, in 64 bits."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(ACC_DTYPE)
    inside, longest, edge, known = locate_body_and_edges(x_start, n, in_rows, EDGES)
    if EDGES:
        edges = tl.load(x + (x_start + edge), known, other=float("nan")).to(ACC_DTYPE) == least
    x_start = align(x_start, EDGES)
    counts = tl.zeros([ROWS, BLOCK], tl.int32)
    for start in range(0, longest, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < inside), other=float("nan"))
        counts += (tile.to(ACC_DTYPE) == least).to(tl.int32)
    found = tl.sum(counts.to(tl.int64), 1, keep_dims=True)
    if EDGES:
        found += tl.sum(edges.to(tl.int64), 1, keep_dims=True)
    tl.store(count + row_start(row, inner, out_outer, out_inner, 1), found.to(ACC_DTYPE), in_rows)


@register("triton", "min_backward_counts", "online")
def online(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> Launch:
    """One pass over column blocks counts a row's elements equal to y, per lane: one read."""
    return launch_blocks("triton/min_backward_counts/online", count_kernel, (x, y, count))
