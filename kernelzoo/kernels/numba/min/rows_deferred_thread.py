"""Short rows of any length through shared memory, a few whole ones to a thread, which writes their minima at once."""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, highest, itemsize
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import elements, spread
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.thread_rows import THREADS, WHY_NOT, Share, moves, parts, places, share
from kernelzoo.kernels.numba.words import ALIGNED, machine, minimum
from kernelzoo.layout import cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

ID = "numba/min/rows_deferred_thread"


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
def folding(own: Share) -> Any:
    """``smallest(held, start)`` of the row whose first element is the thread's element ``start``. Halves are compared
    two at a time, but for those that share a word with another row."""
    N, HIGHEST = own.n, highest(own.dtype)
    element, _ = parts(own)

    @cuda.jit(device=True, inline="always")
    def of_elements(held, start):
        value = HIGHEST
        for i in range(N):
            value = minimum(value, held[start + i])
        return value

    if itemsize(own.dtype) > 2:
        return of_elements
    low, high, _, _, least = machine.word_functions(own.dtype)
    NOTHING = spread(own.dtype, 2, HIGHEST)

    @cuda.jit(device=True, inline="always")
    def of_halves(held, start):
        value, pairs = HIGHEST, NOTHING
        for i in range(N):
            e = start + i
            if e & 1 == 0 and i + 1 < N:
                pairs = least(pairs, held[e >> 1])
            elif e & 1 == 0 or i == 0:
                value = minimum(value, element(held, e))
        return minimum(value, minimum(low(pairs), high(pairs)))

    return of_halves


@cache
def rows_deferred_thread_kernel(own: Share) -> Source:
    """A thread takes ``own.rows`` consecutive rows: no thread waits for another's part of a row, and none tests where
    its row begins or ends."""
    dtype = own.dtype
    kind, storage = WIDE[dtype], STORAGE[dtype]
    read, take, _, _ = moves(own)
    place, smallest = places(own), folding(own)
    _, store = elements(dtype)
    _, put = parts(own)
    ROWS, N, OWN, TILE = own.rows, own.n, own.elements, own.tile
    HELD, WORD = own.registers
    _, store_vector = machine.vector_functions(dtype, ROWS)
    HALVES = itemsize(dtype) == 2
    RESULTS = ROWS // 2 if HALVES and ROWS > 1 else ROWS

    def rows_deferred_thread(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(TILE, storage, ALIGNED)
        held = cuda.local.array(HELD, WORD)
        minima = cuda.local.array(ROWS, kind)
        results = cuda.local.array(RESULTS, WORD)
        lane, first, count, at = place(rows)
        read(x, first * N, tile, at, lane, count)
        take(tile, at + lane * OWN, held)
        for k in range(ROWS):
            minima[k] = smallest(held, k * N)
            put(results, k, minima[k - 1 if k > 0 else 0], minima[k])

        r = first + lane * ROWS
        whole = r + ROWS <= rows
        if ROWS > 1:
            store_vector(out, r, results, 0, whole)
        if ROWS == 1 or not whole:
            for k in range(ROWS):
                if r + k < rows:
                    store(out, r + k, minima[k])

    return Source(rows_deferred_thread, (dtype, dtype), THREADS, (own,))


@register("numba", "min", "rows_deferred_thread")
@planned(Numbers)
def rows_deferred_thread(v: View, device: Device, numbers: Numbers) -> BindView:
    """A few whole short rows to a thread."""
    own = share(v, numbers.thread_bytes)
    if own is None:
        raise UnsupportedProblemError(ID, WHY_NOT)
    grid = within_grid(ID, cdiv(v.total, own.block_rows))
    return prepare(rows_deferred_thread_kernel(own), device).call(grid, *v.offsets)
