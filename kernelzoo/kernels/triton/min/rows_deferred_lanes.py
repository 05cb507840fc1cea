"""Short rows that begin anywhere in vectors: a thread or a few lanes to each, which read its elements side by side."""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, row_arguments, wide_type
from kernelzoo.kernels.triton import lanes
from kernelzoo.kernels.triton.lanes import MOST, WARPS, lanes_of
from kernelzoo.kernels.triton.min.arguments import identity, plain
from kernelzoo.kernels.triton.min.lowest import lower
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of

LONGEST = {4: 7}
"""Elements of a row, by the bytes of one, up to which lanes do better than one piece of memory."""


@numbers
class Numbers:
    lane_elements: int = knob(
        8, among=(2, 4, 8), unit="elements", why="of a row that one lane has at the least, unless it is shorter"
    )


@triton.jit
def rows_lanes_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, N: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """A lane has each of LANES elements of its row: N, which is also n, need be no power of two."""
    await_last_launch()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)[None, :]
    # Rows past the last are read as that one: no load is masked but the last of each row.
    start = row_start(tl.minimum(row, rows - 1), inner, x_outer, x_inner, MULTIPLE)[:, None] + lane.to(tl.int64) * x_n
    elements = []
    for first in tl.static_range(0, N, LANES):
        if first + LANES <= N:
            element = tl.load(x + (start + first * x_n))
        else:
            element = tl.load(x + (start + first * x_n), lane < N - first, other=IDENTITY)
        elements += [element.to(WIDE)]
    least = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        least = lower(least, elements[i])
    least = tl.reduce(least, 1, lower).to(out.dtype.element_ty)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least, row < rows)


def pays(knobs: Numbers, multiprocessors: int, rows: Rows, crowd: int) -> bool:
    """Whether rows are no whole vectors, short, and enough for so many programs per SM."""
    side = WARPS * 32 // lanes_of(rows.n, knobs.lane_elements)
    return lanes.pays(rows, LONGEST, side, crowd * multiprocessors)


@register("triton", "min", "rows_deferred_lanes")
def rows_deferred_lanes(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A thread or a few lanes of a warp to each short row: they read neighbours, and meet by shuffles."""
    id = "triton/min/rows_deferred_lanes"
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    if rows.across or rows.n > MOST:
        raise UnsupportedProblemError(id, f"it takes rows of up to {MOST} elements along memory; got {rows.n}")
    many = min(device.warp_size, lanes_of(rows.n, of(Numbers, device.index).lane_elements))
    side = WARPS * device.warp_size // many
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), identity(x.dtype), rows.n, side, many)
    return bound(id, x, rows_lanes_kernel, cdiv(rows.total, side), args, WARPS)
