"""A tile of short rows to a program, of which some start or end inside a vector, all read by whole vectors."""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, safe, wide_type
from kernelzoo.kernels.triton.softmax.tiles import Numbers, row_tile
from kernelzoo.kernels.triton.softmax.words import READ, exponential, zero_if_empty
from kernelzoo.kernels.triton.words import await_last_launch, ragged_tile, row_start, whole_vectors
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def ragged_tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, safe,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, PACKS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Short rows with edges that LANES threads share, the edges read by whole vectors as well."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    before, inside = whole_vectors(x_start, n, EDGES)
    before, inside = before.to(tl.int32), inside.to(tl.int32)
    x_body = (x_start + EDGES - 1) // EDGES * EDGES
    out_body = (out_start + EDGES - 1) // EDGES * EDGES
    after = n - before - inside
    tile, mask, edges, own, at = ragged_tile(
        x, x_body, row, row < rows, safe, before, inside, after, WIDE, float("-inf"), EDGES, LANES, PACKS, READ
    )
    top = tl.maximum(tl.max(tl.max(tile, 2), 1), tl.max(tl.max(edges, 2), 1))
    top = zero_if_empty(top)[:, None, None]
    tile = exponential(tile - top)
    edges = exponential(edges - top)
    inverse = (1.0 / (tl.sum(tl.sum(tile, 2), 1) + tl.sum(tl.sum(edges, 2), 1)))[:, None, None]
    here = tl.arange(0, LANES * EDGES)[None, None, :] + tl.arange(0, PACKS)[None, :, None] * (LANES * EDGES)
    tl.store(out + out_body + here, (tile * inverse).to(DTYPE), mask)
    tl.store(out + out_body + at, (edges * inverse).to(DTYPE), own)


def vector_of(rows: Rows) -> int:
    """Elements of a vector of 16 bytes, if rows start at the same place of one in x and in out, else 0."""
    aligned = rows.contiguous and not rows.across and rows.aligned and rows.common >= rows.whole_vector
    return rows.whole_vector if aligned else edges_of(rows)


@register("triton", "softmax", "multi_row_ragged")
def multi_row_ragged(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of short rows to a program, a few threads to each, whose edges are read by whole vectors as well."""
    rows, device = rows_of(x, out), device_of(x)
    vector = vector_of(rows)
    tile = row_tile(of(Numbers, device.index), device, rows, vector)
    if not vector or rows.itemsize > 4 or tile is None:
        words = (
            "it takes short rows of at most 32 bits an element, which start at the same place of a vector in x and out"
        )
        raise UnsupportedProblemError("triton/softmax/multi_row_ragged", words)
    side, columns = tile
    lanes = max(8, columns // (8 if rows.itemsize == 4 else 16))
    sizes = (safe(rows), wide_type(x.dtype), vector, side, max(1, columns // (lanes * vector)), lanes)
    args = (x, out, *row_arguments(rows), *sizes)
    return bound("triton/softmax/multi_row_ragged", x, ragged_tile_kernel, cdiv(rows.total, side), args, 1)
