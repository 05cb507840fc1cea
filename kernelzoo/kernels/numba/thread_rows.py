"""Short rows that are one piece of memory, as many to a thread, or a few lanes, as fill whole words of shared memory.

A *word* has 4, 8 or 16 bytes. No word belongs to two threads, or lanes of other rows, and where a row begins in the
first of its words is known to the compiler. A warp copies the rows of its 32 threads as they lie in memory, 16 bytes at
a time, and waits for no other warp. They are an odd number of words apart, so that threads meet in no bank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.dtypes import WIDE, itemsize
from kernelzoo.kernels.numba.row import elements
from kernelzoo.kernels.numba.words import EVERY_LANE, WARP, machine
from kernelzoo.layout import VECTOR_BYTES

if TYPE_CHECKING:
    from kernelzoo.device import Device
    from kernelzoo.kernels.numba.launch import View

THREADS = 128
"""In a block."""
WHY_NOT = "it takes short rows off the boundaries of vectors, as one aligned piece of memory"
SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare."""
UNROLLED = 80
"""Elements of a thread, up to which the compiler unrolls the loops over them, and they stay in registers."""


@dataclass(frozen=True)
class Share:
    """What a thread, or a group of lanes, has of short rows."""

    dtype: str
    n: int
    word: int
    """Bytes that a thread moves at once between shared memory and registers."""
    lanes: int = 1
    """A power of two."""

    @property
    def each(self) -> int:
        """Elements of a word."""
        return self.word // itemsize(self.dtype)

    @property
    def rows(self) -> int:
        """The fewest that fill whole words."""
        return self.each // math.gcd(self.n, self.each)

    @property
    def elements(self) -> int:
        """Of those rows."""
        return self.rows * self.n

    @property
    def size(self) -> int:
        """Bytes of those rows."""
        return self.elements * itemsize(self.dtype)

    @property
    def odd(self) -> bool:
        """Whether it is an odd number of words."""
        return self.size // self.word % 2 == 1

    @property
    def registers(self) -> tuple[int, Any]:
        """How many hold those rows as they lie in memory, and of which type."""
        if itemsize(self.dtype) == 2:
            return self.size // 4, types.uint32
        return self.elements, WIDE[self.dtype]

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.rows * THREADS // self.lanes

    @property
    def tile(self) -> int:
        """Elements of a block."""
        return self.block_rows * self.n

    def fills(self, total: int, device: Device) -> bool:
        """Whether so many rows make a block for every SM."""
        return total >= self.block_rows * device.multiprocessors


def fits(v: View) -> bool:
    """Whether rows lie as they must for this way, and their elements are whole registers or halves of them."""
    narrow = v.itemsize < 4 and v.dtype not in ("float16", "bfloat16")
    return v.edges and v.one_piece and v.aligned and not narrow


def share(v: View, least: int) -> Share | None:
    """What a thread alone has: of ``least`` bytes at least, if the widest words give so many; None if these are not
    rows for this way."""
    if not fits(v):
        return None
    fitting = [Share(v.dtype, v.n, word) for word in (4, 8, 16) if word >= v.itemsize]
    fitting = [own for own in fitting if own.odd and own.elements <= UNROLLED and own.size * THREADS <= SHARED]
    return next((own for own in fitting if own.size >= least), fitting[-1] if fitting else None)


@cache
def moves(own: Share) -> tuple[Any, Any, Any, Any]:
    """``read``, ``take``, ``give``, ``write``: the way of a warp's rows, in and out.

    ``read(x, base, tile, at, lane, count)`` copies so many elements from ``base`` on to shared memory from ``at`` on,
    and ends when every lane may read them; ``write(out, base, tile, at, lane, count)`` copies them back.
    ``take(tile, at, held)`` moves what this thread has from shared memory to its registers, ``give`` moves it back.
    """
    dtype, WORD = own.dtype, own.word
    load, store = elements(dtype)
    copy_in, wait_copies, copy_out, widened, set_narrow = machine.tile_functions(dtype)
    load_words, store_words = machine.tile_words(dtype, WORD)
    VEC, EACH, WORDS = VECTOR_BYTES // itemsize(dtype), own.each, own.size // own.word
    REGISTERS = own.registers[0] // WORDS
    PIECES, STEP = -(-own.size // (own.lanes * VECTOR_BYTES)), WARP * VEC

    @cuda.jit(device=True, inline="always")
    def read(x, base, tile, at, lane, count):
        tail = count & -VEC
        source, target, left = base + lane * VEC, at + lane * VEC, tail - lane * VEC
        for i in range(PIECES):
            if i * STEP < left:
                copy_in(x, source + i * STEP, tile, target + i * STEP)
        if tail + lane < count:
            set_narrow(tile, at + tail + lane, load(x, base + tail + lane))
        wait_copies()
        cuda.syncwarp(EVERY_LANE)

    @cuda.jit(device=True, inline="always")
    def take(tile, at, held):
        for w in range(WORDS):
            load_words(tile, at + w * EACH, held, w * REGISTERS)

    @cuda.jit(device=True, inline="always")
    def give(tile, at, held):
        for w in range(WORDS):
            store_words(tile, at + w * EACH, held, w * REGISTERS)

    @cuda.jit(device=True, inline="always")
    def write(out, base, tile, at, lane, count):
        cuda.syncwarp(EVERY_LANE)
        tail = count & -VEC
        source, target, left = at + lane * VEC, base + lane * VEC, tail - lane * VEC
        for i in range(PIECES):
            if i * STEP < left:
                copy_out(tile, source + i * STEP, out, target + i * STEP)
        if tail + lane < count:
            store(out, base + tail + lane, widened(tile, at + tail + lane))

    return read, take, give, write


@cache
def parts(own: Share) -> tuple[Any, Any]:
    """``element(held, e)``: an element of the thread's rows, widened; ``put(held, e, before, value)`` makes it
    ``value``, a half together with the one before it, as soon as both are known."""
    if itemsize(own.dtype) == 2:
        low, high, pair, _, _ = machine.word_functions(own.dtype)

        @cuda.jit(device=True, inline="always")
        def half(held, e):
            return high(held[e >> 1]) if e & 1 else low(held[e >> 1])

        @cuda.jit(device=True, inline="always")
        def put_half(held, e, before, value):
            if e & 1:
                held[e >> 1] = pair(before, value)

        return half, put_half

    @cuda.jit(device=True, inline="always")
    def whole(held, e):
        return held[e]

    @cuda.jit(device=True, inline="always")
    def put_whole(held, e, before, value):
        held[e] = value

    return whole, put_whole


@cache
def places(own: Share) -> Any:
    """``place(rows)``: this thread's lane, the first row and the elements of its warp, and where those begin in the
    block's shared memory."""
    WARPS, ROWS, N = THREADS // WARP, own.rows * WARP // own.lanes, own.n

    @cuda.jit(device=True, inline="always")
    def place(rows):
        t = types.int64(cuda.threadIdx.x)
        warp = t >> 5
        first = (types.int64(cuda.blockIdx.x) * WARPS + warp) * ROWS
        held = max(types.int64(0), min(types.int64(ROWS), rows - first))
        return t & 31, first, held * N, warp * (ROWS * N)

    return place
