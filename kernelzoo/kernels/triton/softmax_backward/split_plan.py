"""The plan of a launch whose rows or columns have several programs each: what both forms of split ask."""

from typing import Any

import torch

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, packed, row_arguments, wide_type
from kernelzoo.kernels.shared.split import split
from kernelzoo.kernels.triton.softmax import parts
from kernelzoo.kernels.triton.softmax.pairs import EXCHANGE
from kernelzoo.kernels.triton.softmax_backward.columns_kernel import launch_of_columns
from kernelzoo.kernels.triton.softmax_backward.split_kernel import split_kernel
from kernelzoo.kernels.triton.strips import shared_strip
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.tables import of


def launch_in_parts(
    implementation: str, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor], *phases: object
) -> Launch:
    """A launch for each phase, of as many programs to a row, or strip of columns, as pays, which share a workspace."""
    grad, y, out = tensors
    rows, (weights,) = rows_with(grad, out, y)
    device, columns = device_of(grad), rows.columns
    arrivals = grad.new_zeros(1, dtype=torch.int64)
    if columns is not None:
        strip = shared_strip(columns, device, 2)
        sums = grad.new_full((2, columns.strips(strip.columns), strip.parts, strip.columns), -1, dtype=torch.int64)
        launches = [launch_of_columns(implementation, tensors, columns, strip, p, (sums, arrivals)) for p in phases]
        return sequence(*launches)
    knobs = of(parts.Numbers, device.index)
    vector, edges = rows.whole_vector, edges_of(rows, weights)
    inside = rows.n // edges * edges if edges else rows.n
    words = packed(rows, weights)
    # Half as much of each input as of a softmax's one, in the same registers.
    tilings = tuple(
        t._replace(held=t.held // 2, block=min(2, t.block // 2)) for t in parts.split_tilings(rows, words, device)
    )
    tiling, most = parts.split_parts(knobs, rows.total, inside, rows.itemsize, tilings, device.multiprocessors, 3)
    # Programs that hold all of their part pay for a few more of them.
    least = cdiv(inside, tiling.held * tiling.threads * vector)
    if least <= min(1.25 * most, tiling.threads, tiling.programs * device.multiprocessors):
        most = max(most, least)
    plan = split(rows.total, inside, most, vector, tiling.programs * device.multiprocessors)
    blocks = cdiv(max(0, plan.span - tiling.held * tiling.threads * vector), tiling.block * tiling.threads * vector)
    sums = grad.new_full((2, rows.total, plan.parts), -1, dtype=torch.int64)
    place = (grad, y, out, sums, arrivals, *row_arguments(rows, weights), plan.parts, plan.span // vector, blocks)
    kinds = (wide_type(grad.dtype), edges, words)
    sizes = (vector, tiling.threads, tiling.held, tiling.block if blocks else 0, tiling.threads)
    warps = device.warps(tiling.threads)

    def part(phase: object) -> Launch:
        args = (*place, *kinds, phase, *sizes)
        options: dict[str, Any] = {}
        if phase == EXCHANGE:
            options = {"maxnreg": tiling.registers, "launch_cooperative_grid": True}
        return bound(implementation, grad, split_kernel, plan.blocks, args, warps, tensors=3, **options)

    return sequence(*(part(phase) for phase in phases))
