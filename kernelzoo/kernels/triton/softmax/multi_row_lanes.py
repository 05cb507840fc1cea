"""Short rows that begin anywhere in vectors: a few lanes of a warp to each, which read its elements side by side."""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, row_arguments, wide_type
from kernelzoo.kernels.triton import lanes
from kernelzoo.kernels.triton.lanes import MOST, WARPS, lanes_of
from kernelzoo.kernels.triton.softmax.words import READ, exponential, zero_if_empty
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of

LEAST = 4
"""Elements to a lane at the least, and less than twice as many."""

LONGEST = {2: 64, 4: 48}
"""Elements of a row, by the bytes of one, up to which lanes do better than whole vectors and their edges."""


@numbers
class Numbers:
    lane_rows: int = knob(1, among=(1, 2, 4), unit="rows", why="that a thread has a part of")
    lane_crowd: int = knob(
        4, among=(1, 4, 16), unit="programs per SM", why="from which on rows are many enough for programs of four warps"
    )


@triton.jit
def lanes_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """A lane has each of LANES elements of its row: N, which is also n, need be no power of two."""
    await_last_launch()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)[None, :]
    here = lane.to(tl.int64)
    # Rows past the last are read as that one: no load is masked but the last of each row.
    x_start = row_start(tl.minimum(row, rows - 1), inner, x_outer, x_inner, MULTIPLE)[:, None] + here * x_n
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None] + here * out_n
    elements = []
    for first in tl.static_range(0, N, LANES):
        if first + LANES <= N:
            element = tl.load(x + (x_start + first * x_n), eviction_policy=READ)
        else:
            element = tl.load(x + (x_start + first * x_n), lane < N - first, other=float("-inf"), eviction_policy=READ)
        elements += [element.to(WIDE)]
    top = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        top = tl.maximum(top, elements[i])
    top = zero_if_empty(tl.max(top, 1))[:, None]
    elements = [exponential(element - top) for element in elements]
    total = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        total += elements[i]
    inverse = (1.0 / tl.sum(total, 1))[:, None]
    for first in tl.static_range(0, N, LANES):
        result = (elements[first // LANES] * inverse).to(out.dtype.element_ty)
        tl.store(out + (out_start + first * out_n), result, (row < rows)[:, None] & (lane < N - first))


def pays(knobs: Numbers, multiprocessors: int, rows: Rows) -> bool:
    """Whether rows are no whole vectors, short, and many."""
    side = WARPS * 32 * knobs.lane_rows // lanes_of(rows.n, LEAST)
    return lanes.pays(rows, LONGEST, side, knobs.lane_crowd * multiprocessors)


@register("triton", "softmax", "multi_row_lanes")
def multi_row_lanes(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A few lanes of a warp to each short row: they read neighbours, and meet by shuffles."""
    id, rows, device = "triton/softmax/multi_row_lanes", rows_of(x, out), device_of(x)
    if rows.across or rows.n > MOST:
        raise UnsupportedProblemError(id, f"it takes rows of up to {MOST} elements along memory; got {rows.n}")
    many = min(device.warp_size, lanes_of(rows.n, LEAST))
    side = WARPS * device.warp_size * of(Numbers, device.index).lane_rows // many
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), rows.n, side, many)
    return bound(id, x, lanes_kernel, cdiv(rows.total, side), args, WARPS)
