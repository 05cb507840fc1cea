"""Whole columns in the shared memory of a block, or of the blocks of a cluster: read once, written once."""

from dataclasses import dataclass, replace
from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import cluster_words, offsets, quotient, side_by_side
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, lowest
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, shared_bytes, within_grid
from kernelzoo.kernels.numba.row import Tiling, spread, word_type
from kernelzoo.kernels.numba.softmax.columns_words import BARRIER_BYTES, MOST_BLOCKS, by_column, meeting, running
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, WARP, exponential, machine
from kernelzoo.layout import Columns, cdiv, power_of_two
from kernelzoo.registry import register

HELD_TILES = {1: 8, 2: 4, 4: 4, 8: 2}
"""Vectors that a thread takes at once, by their elements."""
ID = "numba/softmax/columns_cluster"
ALONE_LONG = 1024
"""Elements of a column, up to which a block takes 64 bytes across."""
PORTABLE = 8
"""Blocks to a cluster that takes vectors; of 16, more SMs are left without one."""


@cache
def held_kernel(
    dtype: str, vec: int, lanes: int, in_clusters: bool, threads: int, resident: int = 1, tiles: int = 0
) -> Source:
    """Rows side by side, on chip in the shared memory of a block, or of a cluster's blocks: read once, written once.

    A block takes ``lanes`` vectors side by side. All that a thread copies it reads back itself, so that it waits for
    its own copies alone. With vectors of one element, rows may begin on any boundary.
    """
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    storage = STORAGE[dtype]
    VEC, LANES, WIDE_ROWS, TILES = vec, lanes, lanes * vec, HELD_TILES[vec]
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    BATCH, SPAN = WORDS * TILES, max(WARP, lanes)
    SLOTS = threads // SPAN * WIDE_ROWS
    NUMBERS = 2 * MOST_BLOCKS * WIDE_ROWS if in_clusters else 1
    BLOCK_BYTES = 2 * WIDE_ROWS * kind.bitwidth // 8  # of pairs, that each block of a cluster sends to each
    REGISTERS, HELD = tiles, max(1, tiles * WORDS)
    IDENTITY = spread(dtype, VEC, LOWEST)
    PACKED = machine.is_packed(dtype, VEC)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    copy_in, wait_copies, _, widened, _ = machine.tile_functions(dtype)
    take, give = running(dtype, VEC, TILES)
    take_one, give_one = running(dtype, VEC, 1)
    take_held, _ = running(dtype, VEC, REGISTERS)
    _, _, finishes = by_column(dtype, VEC, WORDS)
    meet_all = meeting(dtype, VEC, lanes, in_clusters)
    if VEC > 1:
        load_tile = machine.tile_vector(dtype)
    else:
        copy_in = machine.element_copy(dtype)

        @cuda.jit(device=True, inline="always")
        def load_tile(tile, j, row, k):
            row[k] = widened(tile, j)

    cluster_arrive, _, _, _ = cluster_words(in_clusters)

    def held(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        memory = cuda.shared.array(0, storage, ALIGNED)
        row = cuda.local.array(BATCH, WORD)
        held = cuda.local.array(HELD, WORD)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        shift = cuda.local.array(VEC, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        lane, depth, depths = t % LANES, t // LANES, threads // LANES
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks)
        rank = block - place * blocks
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = quotient(place, across)
        column = (place - group * across) * WIDE_ROWS + lane * VEC
        first = rank * share + depth
        end = min(rank * share + share, n) if column < neighbours else types.int64(0)
        stride = threads * VEC
        source = group * x_group + column + first * x_step
        step = depths * x_step
        i, j = first + REGISTERS * depths, t * VEC
        at = source + REGISTERS * step
        while i < end:
            copy_in(x, at, memory, j)
            i += depths
            j += stride
            at += step
        last = j
        for tile in range(REGISTERS):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            load_vector(x, source + tile * step, held, tile * WORDS, first + tile * depths < end)
        for k in range(VEC):
            top[k] = LOWEST
            total[k] = ZERO
        wait_copies()
        j = t * VEC
        while j + (TILES - 1) * stride < last:
            for tile in range(TILES):
                load_tile(memory, j + tile * stride, row, tile * WORDS)
            take(row, top, total)
            j += TILES * stride
        while j < last:
            load_tile(memory, j, row, 0)
            take_one(row, top, total)
            j += stride
        if REGISTERS > 0:
            take_held(held, top, total)

        meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)
        for k in range(VEC):
            shift[k] = maxima[lane * VEC + k]
            factor = sums[lane * VEC + k]
            total[k] = factor
            if not PACKED:  # in registers there are exponentials already
                total[k] *= exponential(top[k] - shift[k])
            top[k] = factor
        at, step = group * out_group + column + first * out_step, depths * out_step
        for tile in range(REGISTERS):
            finishes(held, tile * WORDS, shift, total)
        for tile in range(REGISTERS):
            store_vector(out, at + tile * step, held, tile * WORDS, first + tile * depths < end)
        j = t * VEC
        at += REGISTERS * step
        while j + (TILES - 1) * stride < last:
            for tile in range(TILES):
                load_tile(memory, j + tile * stride, row, tile * WORDS)
            give(row, shift, top)
            for tile in range(TILES):
                store_vector(out, at + tile * step, row, tile * WORDS, True)
            j += TILES * stride
            at += TILES * step
        while j < last:
            load_tile(memory, j, row, 0)
            give_one(row, shift, top)
            store_vector(out, at, row, 0, True)
            j += stride
            at += step

    constants = (dtype, vec, lanes, in_clusters, threads, resident, tiles)
    return Source(held, (dtype, dtype), threads, constants, resident)


@dataclass(frozen=True)
class Held:
    """How ``held_kernel`` takes columns."""

    lanes: int
    threads: int
    tiles: int
    """Vectors of a thread in registers."""
    resident: int
    """Blocks on an SM at once."""
    blocks: int = 1
    """To a cluster."""

    def static(self, c: Columns) -> int:
        """Bytes of shared memory for pairs: of warps, or of as many threads as lie side by side, and of blocks; and for
        the barrier that counts these."""
        slots = self.threads // max(WARP, self.lanes) + MOST_BLOCKS
        return slots * self.lanes * c.vector * 2 * 4 + BARRIER_BYTES

    def most(self, c: Columns, device: Device) -> int:
        """Elements of a row that a block holds."""
        system = 1024  # bytes of each block, which the driver takes
        room = (shared_bytes(device) + 3072) // self.resident - system - self.static(c)
        kept = max(0, room) // (self.threads * c.vector * c.itemsize)
        return (self.tiles + kept) * (self.threads // self.lanes)

    def kept(self, c: Columns) -> int:
        """Vectors of a thread in shared memory."""
        share = cdiv(c.n, self.blocks)
        return max(0, cdiv(share * self.lanes, self.threads) - self.tiles)


def shape(c: Columns, device: Device) -> Held | None:
    """128 bytes of neighbouring rows in blocks of 128 kB, of which an SM runs two; or 64 bytes, where one holds those.
    Of single elements 83 kB, three to an SM. None for what a cluster doesn't hold."""
    if c.itemsize > 4 or c.vector * c.itemsize < 4:  # halves cannot be copied one by one
        return None
    most_blocks = device.cluster_blocks
    if c.vector == 1:
        held = Held(32, 256, 16, 3)
    else:
        held = Held(4, 256, 0, 3) if c.n <= ALONE_LONG else Held(8, 256, 8, 2)
        most_blocks = min(most_blocks, PORTABLE)
    most = held.most(c, device)
    blocks = power_of_two(cdiv(c.n, most)) if most else MOST_BLOCKS + 1
    at_once = held.resident * device.multiprocessors
    while 2 * blocks <= min(most_blocks, PORTABLE) and 2 * blocks * c.strips(held.lanes * c.vector) <= at_once:
        blocks *= 2
    return replace(held, blocks=blocks) if blocks <= most_blocks else None


@register("numba", "softmax", "columns_cluster")
@planned()
def columns_cluster(v: View, device: Device, _: None) -> BindView:
    """Whole columns in the shared memory of a block, or of the blocks of a cluster."""
    c = side_by_side(v)
    held = shape(c, device) if c is not None else None
    if c is None or held is None:
        raise UnsupportedProblemError(ID, "these are no columns that the shared memory of a cluster holds")
    grid = within_grid(ID, c.strips(held.lanes * c.vector) * held.blocks)
    source = held_kernel(c.dtype, c.vector, held.lanes, held.blocks > 1, held.threads, held.resident, held.tiles)
    return prepare(source, device).call(
        *(grid, *offsets(c), held.blocks, cdiv(c.n, held.blocks)),
        threads=held.threads,
        shared=held.kept(c) * held.threads * c.vector * c.itemsize,
        cluster=held.blocks,
    )
