"""One program to a row of half precision, which it holds as it is read, two numbers to a register."""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, packed, row_arguments, wide_type
from kernelzoo.kernels.triton.softmax.halves import empty_words, halves, not_before
from kernelzoo.kernels.triton.softmax.tiles import row_columns
from kernelzoo.kernels.triton.softmax.words import exponential, zero_if_empty
from kernelzoo.kernels.triton.words import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.launch import Launch
from kernelzoo.layout import power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of


@numbers
class Numbers:
    packed_elements: int = knob(
        48,
        among=(32, 48, 64),
        unit="elements",
        why="to a thread of a program that holds one row of half precision, of two numbers to a register",
    )


@triton.jit
def fused_packed_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Half precision, two numbers to a register until they are computed with."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    cols = tl.arange(0, COLS)
    words = tl.arange(0, COLS // 2)
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        x_body = x + (x_start + EDGES - 1) // EDGES * EDGES
        out_body = out + (out_start + EDGES - 1) // EDGES * EDGES
        edge, known = edge_columns(tl.arange(0, 2 * EDGES), before, inside, n, EDGES)
        edges = tl.load(x + x_start + edge, known, other=float("-inf")).to(WIDE)
    else:
        inside = n
        x_body = x + x_start
        out_body = out + out_start
    here = x_body.to(tl.pointer_type(tl.int32), bitcast=True) + words
    tile = tl.load(here, words < inside // 8 * 4, other=empty_words(DTYPE))
    low, high = halves(tile, DTYPE)
    top = tl.max(tl.maximum(low, high), 0, keep_dims=True)
    if EDGES:
        top = tl.maximum(top, tl.max(edges, 0, keep_dims=True))
    top = zero_if_empty(top)
    tile = not_before(tile, top, rows < 0, False)
    low, high = halves(tile, DTYPE)
    total = tl.sum(exponential(low - top) + exponential(high - top), 0, keep_dims=True)
    if EDGES:
        edges = exponential(edges - top)
        total += tl.sum(edges, 0, keep_dims=True)
    inverse = 1.0 / total
    tile = not_before(tile, inverse, rows < 0, False)
    low, high = halves(tile, DTYPE)
    result = tl.join((exponential(low - top) * inverse).to(DTYPE), (exponential(high - top) * inverse).to(DTYPE))
    tl.store(out_body + cols, tl.reshape(result, [COLS]), cols < inside // 8 * 8)
    if EDGES:
        tl.store(out + out_start + edge, (edges * inverse).to(DTYPE), known)


@register("triton", "softmax", "fused_packed")
def fused_packed(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row of half precision, held two numbers to a register until they are computed with.

    A row takes half of the registers that ``fused`` would, and its numbers are unpacked three times.
    """
    rows, device = rows_of(x, out), device_of(x)
    if not packed(rows):
        words = "its rows must be half precision, and lie alike in x and out, neighbours side by side"
        raise UnsupportedProblemError("triton/softmax/fused_packed", words)
    edges = edges_of(rows)
    columns = row_columns(rows, edges, "triton/softmax/fused_packed")
    threads = max(32, min(256, rows.n // of(Numbers, device.index).packed_elements))
    warps = device.warps(power_of_two(threads + 1) // 2)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), edges, columns)
    return bound("triton/softmax/fused_packed", x, fused_packed_kernel, rows.total, args, warps)
