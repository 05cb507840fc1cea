"""Launches that the gradients of softmax and min share: over rows on chip, over shared rows, and over columns.

The first ``row_inputs`` inputs of a gradient have n elements per row, as the output has. The other inputs have one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared import jit
from kernelzoo.kernels.shared.exchange import EXCHANGE, WRITE, phase_per_launch
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES
from kernelzoo.kernels.triton.passes import row_strides
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.parts import cut_rows, launch_in_parts
from kernelzoo.kernels.triton.softmax.tiles import padded_length
from kernelzoo.kernels.triton.strips import Strip, choose_shared_strip, choose_whole_strip
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Rows, Strides, cdiv, layouts_of
from kernelzoo.tables import of

HELD_COLUMNS = 2
"""The number of inputs for which a strip of complete columns has room, even if there is only one input. If strips were
twice as wide, an SM would run only one program."""

RowsAndStrides = tuple[Rows, tuple[Strides, ...], tuple[Strides, ...]]


def rows_and_input_strides(tensors: Sequence[torch.Tensor], row_inputs: int) -> RowsAndStrides:
    """Return (rows of first input and output, strides of other ``row_inputs``, strides of one-element inputs)."""
    x, *others, out = tensors
    rows, strides = layouts_of(x, out, *others)
    return rows, strides[: row_inputs - 1], strides[row_inputs - 1 :]


def longest_on_chip(rows: Rows, row_inputs: int) -> int:
    """Return the longest row for which so many inputs with n elements per row fit on chip in one program."""
    return ON_CHIP_BYTES // row_inputs // rows.accumulator_bytes


def choose_fused_or_split(tensors: Sequence[torch.Tensor], row_inputs: int) -> str:
    """Choose fused if a program can keep complete rows or columns of the inputs on chip, else split."""
    (rows, full, _), device = rows_and_input_strides(tensors, row_inputs), jit.device_of(tensors[0])
    if rows.is_strided and rows.n > tiles.FEW_ROWS:
        held = choose_whole_strip(rows, device, HELD_COLUMNS) is not None
    else:
        tile = tiles.row_tile(of(tiles.Knobs, device.index), device, rows, jit.edge_vector_size(rows, *full))
        held = tile is not None or rows.n <= longest_on_chip(rows, row_inputs)
    return "fused" if held else "split"


def fused_launch(
    id: str, kernel: Any, columns_kernel: Any, tensors: Sequence[torch.Tensor], row_inputs: int,
    row_warps: Callable[[Device, Rows, int], int],
) -> Launch:  # fmt: skip
    """Return the launch of programs that each keep a row, a tile of short rows or a strip of columns on chip.

    row_warps(device, rows, edges) returns the warps for one row. Raises UnsupportedProblemError if a row doesn't fit.
    """
    (rows, full, single), device = rows_and_input_strides(tensors, row_inputs), jit.device_of(tensors[0])
    edges, knobs = jit.edge_vector_size(rows, *full), of(tiles.Knobs, device.index)
    if (strip := choose_whole_strip(rows, device, HELD_COLUMNS)) is not None:
        return columns_launch(id, columns_kernel, tensors, row_inputs, strip, WRITE)
    if (tile := tiles.row_tile(knobs, device, rows, edges)) is not None:
        side, columns = tile
        warps = tiles.tile_warps(knobs, device, rows, row_inputs * side * columns) if rows.is_strided else 1
    elif rows.n <= longest_on_chip(rows, row_inputs):
        side, columns, warps = 1, padded_length(rows.n, edges), row_warps(device, rows, edges)
    else:
        why = f"a row must fit on chip, {longest_on_chip(rows, row_inputs)} of {rows.dtype} of each input; got {rows.n}"
        raise UnsupportedProblemError(id, why)
    place = (*tensors, *jit.row_arguments(rows, *full), *row_strides(single))
    args = (*place, jit.wide_type(tensors[0].dtype), edges, side, columns, tiles.has_one_column_per_thread(rows))
    return jit.bind_grid(id, kernel, cdiv(rows.total, side), args, warps, tensors=len(tensors))


def split_launch(id: str, kernel: Any, columns_kernel: Any, tensors: Sequence[torch.Tensor], row_inputs: int) -> Launch:
    """Return the launch, or the two launches, in which programs share rows or strips and exchange partial results."""
    x = tensors[0]
    (rows, full, single), device = rows_and_input_strides(tensors, row_inputs), jit.device_of(x)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    if rows.as_columns is not None:
        strip = choose_shared_strip(rows.as_columns, device, row_inputs)
        left = (2, rows.as_columns.strip_count(strip.columns), strip.parts, strip.columns)
        shared = x.new_full(left, -1, dtype=torch.int64), arrivals
        phases = phase_per_launch(device)
        return chain_launches(
            *(columns_launch(id, columns_kernel, tensors, row_inputs, strip, p, *shared) for p in phases)
        )
    edges, words = jit.edge_vector_size(rows, *full), jit.can_pack(rows, *full)
    plan = cut_rows(rows, edges, words, device, row_inputs, gradient=True)
    shared = x.new_full((2, rows.total, plan.parts), -1, dtype=torch.int64), arrivals
    place = (*tensors, *shared, *jit.row_arguments(rows, *full), *row_strides(single), *plan.place)
    return launch_in_parts(id, x, kernel, plan, (*place, jit.wide_type(x.dtype), edges, words), tensors=len(tensors))


def columns_launch(
    id: str, kernel: Any, tensors: Sequence[torch.Tensor], row_inputs: int, strip: Strip, phase: object,
    *shared: torch.Tensor,
) -> Launch:  # fmt: skip
    """Return the launch over strips of columns. shared: (partial results, arrivals) if programs share strips."""
    (rows, full, single), device = rows_and_input_strides(tensors, row_inputs), jit.device_of(tensors[0])
    columns = rows.as_columns
    assert columns is not None
    full, single = (tuple(jit.to_column_strides(rows, other) for other in others) for others in (full, single))
    far = strip.elements * max(columns.x_n, columns.out_n, *(other.n for other in full)) >= 2**31
    four = strip.parts_at_once * strip.columns >= 4 * strip.threads
    # Programs of complete columns exchange nothing. Without workspaces, a launch can be moved to other tensors.
    place = (*tensors, *(shared or (0, 0)), *jit.column_arguments(columns, *full), *row_strides(single))
    kinds = (jit.wide_type(tensors[0].dtype), phase, strip.fits_registers, far, four)
    args = (*place, strip.parts, strip.span, *kinds, strip.elements, strip.columns, strip.parts_at_once)
    options: dict[str, Any] = strip.compiler_options(device) if strip.parts > 1 else {}
    if phase is EXCHANGE:
        options["launch_cooperative_grid"] = True
    grid, warps = strip.grid(columns, device), device.warps(strip.threads)
    return jit.bind_grid(id, kernel, grid, args, warps, tensors=len(tensors), **options)
