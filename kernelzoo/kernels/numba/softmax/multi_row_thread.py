"""Short rows of any length through shared memory, a few whole ones to a thread, one by one in its registers."""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, lowest
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.thread_rows import THREADS, WHY_NOT, Share, moves, parts, places, share
from kernelzoo.kernels.numba.words import ALIGNED, exponential, maximum, reciprocal
from kernelzoo.layout import cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers


@numbers
class Numbers:
    """What depends on the card. Shipped values are an H200's."""

    thread_bytes: int = knob(
        64,
        among=(16, 32, 64, 96, 128),
        unit="bytes",
        why="of short rows that a thread has at least: all that it waits for",
    )


@cache
def multi_row_thread_kernel(own: Share) -> Source:
    """A thread takes ``own.rows`` consecutive rows: no thread waits for another's part of a row, and none tests where
    its row begins or ends."""
    dtype = own.dtype
    kind, storage = WIDE[dtype], STORAGE[dtype]
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)
    read, take, give, write = moves(own)
    place, (element, put) = places(own), parts(own)
    ROWS, N, OWN, TILE = own.rows, own.n, own.elements, own.tile
    HELD, WORD = own.registers

    def multi_row_thread(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(TILE, storage, ALIGNED)
        held = cuda.local.array(HELD, WORD)
        row = cuda.local.array(N, kind)
        lane, first, count, at = place(rows)
        read(x, first * N, tile, at, lane, count)
        take(tile, at + lane * OWN, held)
        before = ZERO
        for k in range(ROWS):
            m = LOWEST
            for i in range(N):
                row[i] = element(held, k * N + i)
                m = maximum(m, row[i])
            shift = m if m > LOWEST else ZERO
            s, part = ZERO, ZERO
            for i in range(N):
                row[i] = exponential(row[i] - shift)
                part += row[i]  # of eight: one sum of equal terms, all rounded the same way, would be off too far
                if i % 8 == 7 or i + 1 == N:
                    s += part
                    part = ZERO
            scale = reciprocal(s)
            for i in range(N):
                value = row[i] * scale
                put(held, k * N + i, before, value)
                before = value
        give(tile, at + lane * OWN, held)
        write(out, first * N, tile, at, lane, count)

    return Source(multi_row_thread, (dtype, dtype), THREADS, (own,))


def shape(v: View, numbers: Numbers) -> Share | None:
    """What a thread has, or None where that is not the form to take. Of float64 an exponential takes many registers."""
    return None if v.dtype == "float64" else share(v, numbers.thread_bytes)


@register("numba", "softmax", "multi_row_thread")
@planned(Numbers)
def multi_row_thread(v: View, device: Device, numbers: Numbers) -> BindView:
    """A few whole short rows to a thread."""
    id, own = "numba/softmax/multi_row_thread", shape(v, numbers)
    if own is None:
        raise UnsupportedProblemError(id, f"{WHY_NOT}, and not of float64")
    grid = within_grid(id, cdiv(v.total, own.block_rows))
    return prepare(multi_row_thread_kernel(own), device).call(grid, *v.offsets)
