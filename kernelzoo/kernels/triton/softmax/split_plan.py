"""The plan of a launch of split_kernel: programs to a row, and the arguments of both forms."""

from typing import Any, NamedTuple

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import device_of, edges_of, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.split import split
from kernelzoo.kernels.triton.softmax import parts
from kernelzoo.layout import cdiv, rows_of
from kernelzoo.tables import of


class SplitPlan(NamedTuple):
    """Programs and warps of a launch, registers of a thread, and the arguments before and after PHASE."""

    programs: int
    warps: int
    registers: int
    before: tuple[Any, ...]
    after: tuple[Any, ...]


def split_plan(x: torch.Tensor, out: torch.Tensor, implementation: str) -> SplitPlan:
    """How programs share rows of x. Raises UnsupportedProblemError for columns, whose packs a thread can't hold."""
    rows, device = rows_of(x, out), device_of(x)
    if rows.across:
        raise UnsupportedProblemError(implementation, "neighbours of a row must be nearest in memory, not its next row")
    knobs = of(parts.Numbers, device.index)
    vector, edges = rows.whole_vector, edges_of(rows)
    inside = parts.inside_of(rows)
    words = parts.holds_words(knobs, device, rows)
    tilings = parts.split_tilings(rows, words, device)
    tiling, most = parts.split_parts(knobs, rows.total, inside, rows.itemsize, tilings, device.multiprocessors)
    plan = split(rows.total, inside, most, vector, tiling.programs * device.multiprocessors)
    beyond = max(0, plan.span - tiling.held * tiling.threads * vector)
    blocks = cdiv(beyond, tiling.block * tiling.threads * vector)
    wide = wide_dtype(x.dtype)
    pairs = x.new_full((2, rows.total, wide.itemsize // 4, plan.parts), -1, dtype=torch.int64)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    place = (x, out, pairs, arrivals, *row_arguments(rows), plan.parts, plan.span // vector, blocks)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min, edges, words, words and device.capability >= 80)
    sizes = (vector, tiling.threads, tiling.held, tiling.block if blocks else 0, tiling.threads)
    return SplitPlan(plan.blocks, device.warps(tiling.threads), tiling.registers, (*place, *kinds), sizes)
