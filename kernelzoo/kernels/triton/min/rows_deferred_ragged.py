"""Short rows that start or end inside a 16-byte vector: a few threads share each, and read its edges as vectors too."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, row_arguments, safe, wide_type
from kernelzoo.kernels.triton.min.arguments import identity, plain
from kernelzoo.kernels.triton.min.lowest import lower
from kernelzoo.kernels.triton.words import await_last_launch, ragged_tile, row_start, whole_vectors
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, power_of_two, rows_of
from kernelzoo.registry import register

SHORTEST, LONGEST = 32, 256
"""Elements of a row's whole vectors, rounded up to a power of two, that the tile of one warp has room for."""


@triton.jit
def rows_ragged_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, safe,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr,
    ROWS: tl.constexpr, PACKS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Short rows with edges that LANES threads share, the edges read by whole vectors as well."""
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at_row = row[:, None, None]
    x_start = row_start(at_row, inner, x_outer, x_inner, MULTIPLE)
    before, inside = whole_vectors(x_start, n, EDGES)
    before, inside = before.to(tl.int32), inside.to(tl.int32)
    body = (x_start + EDGES - 1) // EDGES * EDGES
    after = n - before - inside
    tile, _, edges, _, _ = ragged_tile(
        x, body, at_row, at_row < rows, safe, before, inside, after, WIDE, IDENTITY, EDGES, LANES, PACKS, "evict_first"
    )
    least = tl.reduce(tl.reduce(tile, 1, lower), 1, lower)
    least = lower(least, tl.reduce(tl.reduce(edges, 1, lower), 1, lower))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


class RaggedTile(NamedTuple):
    """Rows of a tile, threads to a row, and columns of its whole vectors."""

    rows: int
    lanes: int
    columns: int


def tile_of(rows: Rows) -> RaggedTile | None:
    """The tile of one warp, None where a row is too short or too long for it or can't be read by vectors."""
    vector = rows.whole_vector
    if rows.itemsize not in (2, 4) or rows.x_n != 1 or rows.across or rows.x_phase or rows.n < 2 * vector:
        return None
    columns = power_of_two(rows.n // vector * vector)
    if not SHORTEST <= columns <= LONGEST:
        return None
    if rows.itemsize == 4:
        return RaggedTile(1024 // columns, 8, columns)
    return RaggedTile(32, 4, columns) if columns < 128 else RaggedTile(2048 // columns, 16, columns)


@register("triton", "min", "rows_deferred_ragged")
def rows_deferred_ragged(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over short rows, a few threads to each; edges are read by whole vectors, foreign elements left out."""
    id = "triton/min/rows_deferred_ragged"
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    tile = tile_of(rows)
    if tile is None:
        raise UnsupportedProblemError(
            id,
            f"it takes rows of some {SHORTEST} to {LONGEST} elements of 2 or 4 bytes each, side by side in memory that "
            f"starts on 16 bytes; got rows of {rows.n} {rows.dtype}",
        )
    vector = rows.whole_vector
    kinds = (safe(rows), wide_type(x.dtype), identity(x.dtype), vector)
    args = (x, out, *row_arguments(rows), *kinds, tile.rows, tile.columns // (tile.lanes * vector), tile.lanes)
    return bound(id, x, rows_ragged_kernel, cdiv(rows.total, tile.rows), args, 1)
