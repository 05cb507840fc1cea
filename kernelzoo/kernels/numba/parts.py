"""Several blocks per row: a first launch stores partial results, and a second launch combines those of each row."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.lanes import vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, check_grid, prepare_kernel
from kernelzoo.kernels.numba.row import thread_mapping
from kernelzoo.kernels.shared.long_rows import count_row_parts
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import cdiv

LINE = 128
"""A number of elements that is at least a cache line in every dtype. Each part begins at a multiple of it."""

MERGE_TILING = Tiling(WARP, 4, 4, 1)
"""The tiling of the second launch: a warp per row."""


class RowCut(NamedTuple):
    """How rows are cut into parts."""

    tiling: Tiling
    """The tiling of a part."""
    parts: int
    span: int
    """Elements per part. The last part may have fewer."""


def cut_rows(v: RowView, tiling_of: Callable[[RowView], Tiling] = vector_tiling) -> RowCut:
    """Return a cut into as many parts as fill the device. ``tiling_of`` tiles a part like a row of that length."""
    span = cdiv(max(1, v.n), count_row_parts(v, v.device) * LINE) * LINE
    return RowCut(tiling_of(replace(v, n=span)), cdiv(max(1, v.n), span), span)


@cache
def part_finder(tiling: Tiling) -> Any:
    """Return ``find_part(rows, n, parts, span)``: this thread's (lane, lanes per row, row, part, the part's start and
    end). The end is 0 if the row doesn't exist."""
    mapping, ROWS = thread_mapping(tiling), tiling.rows

    @cuda.jit(device=True, inline="always")
    def find_part(rows, n, parts, span):
        lane, lanes, group = mapping()
        block = types.int64(cuda.blockIdx.x)
        r, part = block // parts * ROWS + group, block % parts
        start = part * span
        return lane, lanes, r, part, start, min(start + span, n) if r < rows else types.int64(0)

    return find_part


def bind_parts_and_merge(
    id: str, cut: RowCut, first: Source, second: Source, v: RowView, *, values_per_part: int = 1, one_grid: bool = False
) -> BindView:
    """Return a function of tensors that returns two launches. The first has a block per part. Its kernel takes x and
    out, the second all inputs and out. Both take ``values_per_part`` partial results per part before out. The second
    runs in ``MERGE_TILING``, or, if ``one_grid``, in the first launch's grid."""
    grid = check_grid(id, cdiv(v.total, cut.tiling.rows) * cut.parts)
    threads = cut.tiling.count_lanes(cut.span) * cut.tiling.rows
    save = prepare_kernel(first, v.device).bind(grid, *replace(v, companions=()).kernel_args, *cut[1:], threads=threads)
    if not one_grid:
        grid, threads = check_grid(id, cdiv(v.total, MERGE_TILING.rows)), MERGE_TILING.threads
    merge = prepare_kernel(second, v.device).bind(grid, *v.kernel_args, *cut[1:], threads=threads)
    kind = getattr(torch, str(first.pointees[1]))

    def bind(*tensors: torch.Tensor) -> Launch:
        *inputs, out = tensors
        numbers = torch.empty(v.total * cut.parts * values_per_part, dtype=kind, device=out.device)
        return chain_launches(save(inputs[0], numbers, out), merge(*inputs, numbers, out))

    return bind
