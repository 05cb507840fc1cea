"""One program to a row, of which it holds a bit to an element, whether that is the minimum: one read, one write.

Longer rows fit on chip so than in ``fused``, which holds them as they were read.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.min_backward.arguments import one_a_row
from kernelzoo.kernels.triton.min_backward.words import shares_of
from kernelzoo.kernels.triton.softmax.fused import tile_columns
from kernelzoo.kernels.triton.softmax.words import READ
from kernelzoo.kernels.triton.words import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, power_of_two, rows_with
from kernelzoo.registry import register

WORD_BITS = 32
"""Blocks of a row, at the most: each element of a block has one word, and in it a bit of each block."""

LEAST, MOST = 2048, 8192
"""Elements of a block."""

THREAD_BYTES = 32
"""Of a block to a thread."""


@triton.jit
def fused_bits_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, WIDE: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program r has row r. Its edges, which begin or end inside a vector, it holds as they are."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1)).to(WIDE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1)).to(WIDE)
    cols = tl.arange(0, BLOCK)
    inside = n
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES), before, inside, n, EDGES)
        edges_equal = tl.load(x + (x_start + edge), known, other=float("nan")).to(WIDE) == least
        out_edges = out + (out_start + edge)
        x_start = (x_start + EDGES - 1) // EDGES * EDGES
        out_start = (out_start + EDGES - 1) // EDGES * EDGES
    bits = tl.zeros([BLOCK], tl.int32)
    counts = tl.zeros([BLOCK], tl.int32)
    blocks = tl.cdiv(inside, BLOCK)
    for i in range(blocks):
        here = i * BLOCK + cols
        tile = tl.load(x + (x_start + here.to(tl.int64) * x_n), here < inside, other=float("nan"), eviction_policy=READ)
        equal = (tile.to(WIDE) == least).to(tl.int32)
        counts += equal
        bits |= equal << i
    count = tl.sum(counts, 0)
    if EDGES:
        count += tl.sum(edges_equal.to(tl.int32), 0)
    each, rest = shares_of(slope, count, DTYPE)
    if EDGES:
        tl.store(out_edges, tl.where(edges_equal, each, rest), known)
    for i in range(blocks):
        here = i * BLOCK + cols
        tl.store(
            out + (out_start + here.to(tl.int64) * out_n), tl.where((bits >> i) & 1 != 0, each, rest), here < inside
        )


@register("triton", "min_backward", "fused_bits")
def fused_bits(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, of which it holds a bit to an element: one read, one write."""
    rows, others = rows_with(x, out, y, grad)
    device, edges = device_of(x), edges_of(rows)
    if rows.n > WORD_BITS * MOST:
        raise UnsupportedProblemError(
            "triton/min_backward/fused_bits",
            f"a program holds a row of up to {WORD_BITS * MOST} elements; got {rows.n}",
        )
    columns = tile_columns(rows.n, edges)
    block = min(columns, max(LEAST, power_of_two(cdiv(columns, WORD_BITS))))
    warps = device.warps(block * rows.itemsize // THREAD_BYTES)
    args = (x, y, grad, out, *row_arguments(rows), *one_a_row(others), wide_type(x.dtype), edges, block)
    return bound("triton/min_backward/fused_bits", x, fused_bits_kernel, rows.total, args, warps, tensors=4)
