"""Launches of one pass over rows, in blocks of columns, for sharded softmax and sharded gradients."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.kernels.triton.softmax.online import column_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import Strides, cdiv, layouts_of

PASS_TILE = 1024
"""The fewest elements in a tile of short rows."""


def row_strides(others: Iterable[Strides]) -> tuple[int, ...]:
    """Return the outer and inner strides of tensors with one element per row, as one flat tuple."""
    return tuple(stride for other in others for stride in (other.outer, other.inner))


def launch_blocks(
    id: str,
    kernel: Any,
    tensors: Sequence[torch.Tensor],
    row_inputs: int = 1,
    kernel_constants: Sequence[Any] = (),
    one_block: bool = False,
) -> Launch:
    """Return a kernel's launch over tiles of rows. A program loops over a tile's blocks or, if one_block, takes one.

    tensors: the inputs, then the output. The first ``row_inputs`` inputs have n elements per row, the other inputs one.
    kernel_constants: the constants that the kernel takes after ACC_DTYPE.
    """
    x, *beside, out = tensors
    rows, strides = layouts_of(x, out, *beside)
    full, single = strides[: row_inputs - 1], strides[row_inputs - 1 :]
    device, edges = device_of(x), edge_vector_size(rows, *full)
    side, block, warps = column_tile(device, rows, PASS_TILE)
    blocks = cdiv(rows.n, block) if one_block else 1
    constants = (wide_type(x.dtype), *kernel_constants, edges, side, block)
    args = (*tensors, *row_arguments(rows, *full), *row_strides(single), *([blocks] if one_block else []), *constants)
    return bind_grid(id, kernel, cdiv(rows.total, side) * blocks, args, warps, tensors=len(tensors))
