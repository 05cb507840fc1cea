"""Functions that both atomic forms share: updates by atomics, and the sequence of fill, kernel and conversion."""

from typing import Any

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import min_or_nan
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.triton.min import tiles
from kernelzoo.kernels.triton.min.lowest import choose_fold, fold_columns, load_edges, row_minima, running_minima
from kernelzoo.launch import Launch, keeping_alive
from kernelzoo.layout import bool_as_uint8, cdiv, min_identity, rows_of
from kernelzoo.tables import form_knobs, knob, of


@form_knobs
class Knobs(tiles.Knobs):
    # BLOCK_M, as in the reference case's published tuning.
    atomic_rows: int = knob(8, among=(4, 8, 16), unit="rows", why="of a tile of the atomic variants")
    atomic_tiles: int = knob(
        4,
        among=(2, 4, 8),
        unit="tiles",
        why="of one program of the atomic variants: what the batched one keeps on chip until its end",
    )


@triton.jit
def atomic_minimum(out, value, mask):
    """Set out to the minimum of out and value, by atomics in any order. out must start as the identity.

    Floats are compared by their bits. Non-negative floats sort as signed integers, so out takes a signed minimum.
    Negative floats sort in reverse as unsigned integers, so out takes an unsigned maximum. A NaN is sent as all bits
    set. As a signed integer it is below any non-negative float, as an unsigned one above all floats.
    """
    if value.dtype.is_floating():
        SIGNED: tl.constexpr = tl.int64 if value.dtype == tl.float64 else tl.int32
        UNSIGNED: tl.constexpr = tl.uint64 if value.dtype == tl.float64 else tl.uint32
        bits = tl.where(value == value, value.to(SIGNED, bitcast=True), -1)
        signed = out.to(tl.pointer_type(SIGNED), bitcast=True)
        unsigned = out.to(tl.pointer_type(UNSIGNED), bitcast=True)
        tl.atomic_min(signed, bits, mask & (bits >= 0), sem="relaxed")
        tl.atomic_max(unsigned, bits.to(UNSIGNED, bitcast=True), mask & (bits < 0), sem="relaxed")
    else:
        tl.atomic_min(out, value, mask, sem="relaxed")


@triton.jit
def part_minima(
    x, start, x_n, n, cols, begin, end, in_rows,
    ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return each row's minimum over columns ``begin`` to ``end`` and its edges. Every part reads the edges again."""
    in_rows = in_rows[:, None]
    start, columns, edges = load_edges(x, start, n, in_rows, ACC_DTYPE, IDENTITY, EDGES, ROWS)
    least = running_minima(x, start, x_n, n, cols, begin, end, columns, in_rows, ACC_DTYPE, IDENTITY, ROWS, BLOCK)
    return min_or_nan(row_minima(fold_columns(least, ROWS, BLOCK, FOLD)), row_minima(edges))


def atomic_launch(id: str, kernel: Any, x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Return the launch of an atomic kernel. The output is filled with the identity before the kernel runs."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    # Atomics take 32 or 64 bits. Narrower minima are found in a workspace, which the launch converts at the end.
    target = out if out.dtype.itemsize >= 4 else x.new_empty(out.shape, dtype=wide_dtype(x.dtype))
    rows, device = rows_of(x, target), device_of(x)
    knobs = of(Knobs, device.index)
    tile = tiles.block_tile(knobs, rows, x.dtype, knobs.atomic_rows)
    side, piece = tile.rows, tile.block
    groups = cdiv(rows.total, side * knobs.atomic_tiles)
    blocks = min(cdiv(rows.n, piece), cdiv(knobs.crowd * device.multiprocessors, groups))
    pieces = cdiv(rows.n, piece * blocks)
    blocks = cdiv(rows.n, piece * pieces)
    constants = (wide_type(x.dtype), min_identity(x.dtype), edge_vector_size(rows), choose_fold(rows, x.dtype, piece))
    args = (x, target, *row_arguments(rows), blocks, pieces, *constants, knobs.atomic_tiles, side, piece)
    lower_all = bind_grid(id, kernel, groups * blocks, args, device.warps(tile.threads))
    nothing = min_identity(target.dtype)

    def launch() -> None:
        target.fill_(nothing)
        lower_all()
        if target is not out:
            out.copy_(target)

    return launch if target is out else keeping_alive(launch, target)
