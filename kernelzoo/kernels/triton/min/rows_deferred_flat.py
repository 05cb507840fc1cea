"""Short rows without gaps: a program reads many as one piece of memory, and then gives a thread, or a few, a row."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, wide_type
from kernelzoo.kernels.triton.min.arguments import identity, plain
from kernelzoo.kernels.triton.min.lowest import lower, lowest
from kernelzoo.kernels.triton.words import await_last_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, power_of_two, rows_of
from kernelzoo.registry import register

THREADS = 128
"""Of a program."""

OWN = 64
"""Elements of a row, at the most, that a thread has for itself, so that no lane asks another."""

SHARED_ELEMENTS = 4096
"""Of a piece of memory whose rows are longer: several threads share one, since one has no registers for it."""

LONGEST = 256
"""Elements of a row, at the most: the compiler takes too long for more."""


@triton.jit
def columns_of(flat, n, last, first, nothing, WIDE: tl.constexpr, LANES: tl.constexpr, COLS: tl.constexpr):
    """Columns [first, first + COLS) of rows that lie in flat, n elements each, as a tile [COLS, LANES].

    A column is then one register to all threads, since each of LANES threads has a row; the last row serves for those
    that have none.
    """
    at = tl.arange(0, LANES * COLS)
    at = tl.minimum(at % LANES, last) * n + (first + at // LANES)
    columns = tl.reshape(tl.gather(flat, at, 0), [COLS, LANES]).to(WIDE)
    return tl.where((first + tl.arange(0, COLS) < n)[:, None], columns, nothing)


@triton.jit
def folded_rows(x, COLS: tl.constexpr, LANES: tl.constexpr):
    """Minima down a tile [COLS, LANES], of which a thread has whole columns: [1, LANES]."""
    if COLS == 1:
        result = x
    else:
        low, high = tl.split(tl.permute(tl.reshape(x, [2, COLS // 2, LANES]), (1, 2, 0)))
        result = folded_rows(lower(low, high), COLS // 2, LANES)
    return result


@triton.jit
def rows_flat_kernel(
    x, out, rows, out_outer, n, side,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, VECTOR: tl.constexpr,
    LANES: tl.constexpr, COLS: tl.constexpr, REST: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """Short rows without gaps: side times VECTOR of them are one piece of memory, which is read by whole vectors."""
    await_last_launch()
    first = tl.program_id(0).to(tl.int64) * side * VECTOR
    here = tl.minimum(rows - first, side * VECTOR).to(tl.int32)
    x += first * n
    flat = tl.arange(0, FLAT)
    inside = here * n // VECTOR * VECTOR
    tile = tl.load(x + flat, flat < inside, other=0, eviction_policy="evict_first")
    if inside < here * n:
        ragged = (flat >= inside) & (flat < here * n)
        tile = tl.where(ragged, tl.load(x + flat, ragged, other=0), tile)
    columns = columns_of(tile, n, here - 1, 0, IDENTITY, WIDE, LANES, COLS)
    least = lowest(folded_rows(columns, COLS, LANES), 0)
    if REST:
        columns = columns_of(tile, n, here - 1, COLS, IDENTITY, WIDE, LANES, REST)
        least = lower(least, lowest(folded_rows(columns, REST, LANES), 0))
    row = tl.arange(0, LANES)
    tl.store(out + (first + row) * out_outer, least.to(out.dtype.element_ty), row < here)


class FlatTile(NamedTuple):
    """Rows to a program, counted in vectors, and the kernel's constants: rows that have lanes, columns of a row as two
    powers of two (COLS and REST), and elements of the piece."""

    side: int
    lanes: int
    columns: int
    rest: int
    flat: int


def tile_of(rows: Rows) -> FlatTile | None:
    """The tile, None where rows don't lie in one piece or are too long."""
    n, vector = rows.n, rows.whole_vector
    if rows.x_n != 1 or rows.inner != 1 or (rows.outer > 1 and rows.x_outer != n) or n > LONGEST:
        return None
    lanes = THREADS if n <= OWN else SHARED_ELEMENTS // power_of_two(n)
    columns = power_of_two(n + 1) // 2
    rest = power_of_two(n - columns) if n > columns else 0
    # Some lanes without a row, rather than half of the tile without memory.
    flat = power_of_two(lanes * n)
    if n <= OWN and flat > 1.3 * lanes * n:
        flat //= 2
    # The last row's columns must lie in the tile as well, those beyond its end included.
    side = min((flat - (columns + rest - n)) // (n * vector), lanes // vector)
    return FlatTile(side, lanes, columns, rest, flat)


@register("triton", "min", "rows_deferred_flat")
def rows_deferred_flat(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over short rows without gaps, read as one piece of memory; a thread, or a few, reduce a row."""
    id = "triton/min/rows_deferred_flat"
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    tile = tile_of(rows)
    if tile is None:
        raise UnsupportedProblemError(
            id,
            f"it takes rows of at most {LONGEST} elements that follow each other without a gap; got rows of {rows.n}, "
            f"their elements {rows.x_n} apart and the rows {rows.step}",
        )
    vector = rows.whole_vector
    kinds = (wide_type(x.dtype), identity(x.dtype), vector, tile.lanes, tile.columns, tile.rest, tile.flat)
    args = (x, out, rows.total, rows.out_outer, rows.n, tile.side, *kinds)
    programs = cdiv(rows.total, tile.side * vector)
    return bound(id, x, rows_flat_kernel, programs, args, device.warps(THREADS))
