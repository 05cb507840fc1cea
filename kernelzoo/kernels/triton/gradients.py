"""Launches that the gradients of softmax and min share: over rows on chip, over shared rows, and over columns.

The first ``whole`` inputs of a gradient have n elements per row, as the output has. The other inputs have one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared import jit
from kernelzoo.kernels.shared.exchange import EXCHANGE, WRITE, launch_phases
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES
from kernelzoo.kernels.triton.passes import row_strides
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.parts import launch_in_parts, plan_rows
from kernelzoo.kernels.triton.softmax.tiles import tile_columns
from kernelzoo.kernels.triton.strips import Strip, choose_shared_strip, choose_whole_strip
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import Rows, Strides, cdiv, rows_with
from kernelzoo.tables import of

HELD_COLUMNS = 2
"""The number of inputs for which a strip of complete columns has room, even if there is only one input. If strips were
twice as wide, an SM would run only one program."""

RowsAndStrides = tuple[Rows, tuple[Strides, ...], tuple[Strides, ...]]


def rows_and_strides(tensors: Sequence[torch.Tensor], whole: int) -> RowsAndStrides:
    """Return (rows of the first and last tensor, strides of other n-element inputs, strides of one-element inputs)."""
    x, *others, out = tensors
    rows, strides = rows_with(x, out, *others)
    return rows, strides[: whole - 1], strides[whole - 1 :]


def longest_row(rows: Rows, whole: int) -> int:
    """Return the longest row length for which ``whole`` inputs fit on chip in one program."""
    return ON_CHIP_BYTES // whole // rows.wide_bytes


def choose_form(tensors: Sequence[torch.Tensor], whole: int) -> str:
    """Choose fused if a program can keep complete rows or columns of the inputs on chip, else split."""
    (rows, full, _), device = rows_and_strides(tensors, whole), jit.device_of(tensors[0])
    if rows.across and rows.n > tiles.FEW_ROWS:
        held = choose_whole_strip(rows, device, HELD_COLUMNS) is not None
    else:
        tile = tiles.row_tile(of(tiles.Knobs, device.index), device, rows, jit.edges_of(rows, *full))
        held = tile is not None or rows.n <= longest_row(rows, whole)
    return "fused" if held else "split"


def fused_launch(
    id: str, kernel: Any, columns_kernel: Any, tensors: Sequence[torch.Tensor], whole: int,
    row_warps: Callable[[Device, Rows, int], int],
) -> Launch:  # fmt: skip
    """Return the launch of programs that each keep a row, a tile of short rows or a strip of columns on chip.

    row_warps(device, rows, edges) returns the warps for one row. Raises UnsupportedProblemError if a row doesn't fit.
    """
    (rows, full, single), device = rows_and_strides(tensors, whole), jit.device_of(tensors[0])
    edges, knobs = jit.edges_of(rows, *full), of(tiles.Knobs, device.index)
    if (strip := choose_whole_strip(rows, device, HELD_COLUMNS)) is not None:
        return columns_launch(id, columns_kernel, tensors, whole, strip, WRITE)
    if (tile := tiles.row_tile(knobs, device, rows, edges)) is not None:
        side, columns = tile
        warps = tiles.tile_warps(knobs, device, rows, whole * side * columns) if rows.across else 1
    elif rows.n <= longest_row(rows, whole):
        side, columns, warps = 1, tile_columns(rows.n, edges), row_warps(device, rows, edges)
    else:
        words = f"a row must fit on chip, {longest_row(rows, whole)} of {rows.dtype} of each input; got {rows.n}"
        raise UnsupportedProblemError(id, words)
    place = (*tensors, *jit.row_arguments(rows, *full), *row_strides(single))
    args = (*place, jit.wide_type(tensors[0].dtype), edges, side, columns, tiles.reads_single_elements(rows))
    return jit.bind_grid(id, kernel, cdiv(rows.total, side), args, warps, tensors=len(tensors))


def split_launch(id: str, kernel: Any, columns_kernel: Any, tensors: Sequence[torch.Tensor], whole: int) -> Launch:
    """Return the launch, or the two launches, in which programs share rows or strips and exchange partial results."""
    x = tensors[0]
    (rows, full, single), device = rows_and_strides(tensors, whole), jit.device_of(x)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    if rows.columns is not None:
        strip = choose_shared_strip(rows.columns, device, whole)
        left = (2, rows.columns.strips(strip.columns), strip.parts, strip.columns)
        shared = x.new_full(left, -1, dtype=torch.int64), arrivals
        phases = launch_phases(device)
        return sequence(*(columns_launch(id, columns_kernel, tensors, whole, strip, p, *shared) for p in phases))
    edges, words = jit.edges_of(rows, *full), jit.can_pack(rows, *full)
    plan = plan_rows(rows, edges, words, device, whole, gradient=True)
    shared = x.new_full((2, rows.total, plan.parts), -1, dtype=torch.int64), arrivals
    place = (*tensors, *shared, *jit.row_arguments(rows, *full), *row_strides(single), *plan.place)
    return launch_in_parts(id, x, kernel, plan, (*place, jit.wide_type(x.dtype), edges, words), tensors=len(tensors))


def columns_launch(
    id: str, kernel: Any, tensors: Sequence[torch.Tensor], whole: int, strip: Strip, phase: object,
    *shared: torch.Tensor,
) -> Launch:  # fmt: skip
    """Return the launch over strips of columns. shared: (results, arrivals) if several programs share a strip."""
    (rows, full, single), device = rows_and_strides(tensors, whole), jit.device_of(tensors[0])
    columns = rows.columns
    assert columns is not None
    full, single = (tuple(jit.to_column_strides(rows, other) for other in others) for others in (full, single))
    far = strip.elements * max(columns.x_n, columns.out_n, *(other.n for other in full)) >= 2**31
    four = strip.lanes * strip.columns >= 4 * strip.threads
    # Programs of complete columns exchange nothing. Without workspaces, a launch can be moved to other tensors.
    place = (*tensors, *(shared or (0, 0)), *jit.column_arguments(columns, *full), *row_strides(single))
    kinds = (jit.wide_type(tensors[0].dtype), phase, strip.fits_registers, far, four)
    args = (*place, strip.parts, strip.span, *kinds, strip.elements, strip.columns, strip.lanes)
    options: dict[str, Any] = strip.options(device) if strip.parts > 1 else {}
    if phase is EXCHANGE:
        options["launch_cooperative_grid"] = True
    grid, warps = strip.grid(columns, device), device.warps(strip.threads)
    return jit.bind_grid(id, kernel, grid, args, warps, tensors=len(tensors), **options)
