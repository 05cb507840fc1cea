"""Launches of one pass over rows by blocks of columns: the parts of gradients and of a softmax that shards take."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.softmax.online import column_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import Strides, cdiv, rows_with

PASS_TILE = 1024
"""Elements of a tile of short rows at the least."""


def one_a_row(others: Iterable[Strides]) -> tuple[int, ...]:
    """The strides of tensors that have one element a row: outer and inner of each."""
    return tuple(stride for other in others for stride in (other.outer, other.inner))


def over_blocks(
    id: str,
    kernel: Any,
    tensors: Sequence[torch.Tensor],
    whole: int = 1,
    kinds: Sequence[Any] = (),
    one_block: bool = False,
) -> Launch:
    """The launch of a kernel over tiles of rows, each gone through in blocks, or a program to each block.

    tensors: the canonical ones. The first ``whole`` of them have n elements a row, the other inputs one. kinds:
    constants after WIDE.
    """
    x, *beside, out = tensors
    rows, strides = rows_with(x, out, *beside)
    full, single = strides[: whole - 1], strides[whole - 1 :]
    device, edges = device_of(x), edges_of(rows, *full)
    side, block, warps = column_tile(device, rows, PASS_TILE)
    blocks = cdiv(rows.n, block) if one_block else 1
    constants = (wide_type(x.dtype), *kinds, edges, side, block)
    args = (*tensors, *row_arguments(rows, *full), *one_a_row(single), *([blocks] if one_block else []), *constants)
    return bound(id, kernel, cdiv(rows.total, side) * blocks, args, warps, tensors=len(tensors))
