"""Columns that begin anywhere in a vector, in shared memory: read once, written once."""

from dataclasses import dataclass
from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import cluster_words, offsets, quotient, side_by_side
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import elements
from kernelzoo.kernels.numba.softmax.columns_words import BARRIER_BYTES, MOST_BLOCKS, meeting, running, shared_of
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, EVERY_LANE, WARP, exponential, machine
from kernelzoo.layout import VECTOR_BYTES, Columns, cdiv
from kernelzoo.registry import register

ID = "numba/softmax/columns_ragged"
RAGGED_WARPS = 8
"""Of a block, at most."""
RAGGED_BLOCKS = 4
"""On an SM."""
RAGGED_BYTES = 84
"""Of shared memory for each thread, at most, if there are warps enough."""
RAGGED_LONG = 64
"""Elements of a row for a block, up to which a cluster has no more blocks."""


@cache
def ragged_kernel(dtype: str, in_clusters: bool) -> Source:
    """Rows side by side that begin anywhere in a vector, on chip in shared memory: read once, written once.

    A block takes 32 neighbouring rows, a lane each. Their elements of one place in the rows are a piece of memory, and
    the words of 16 bytes that it lies in are copied whole: halves, too, go without a register between. A warp has
    ``items`` places, one after the other, ``PITCH`` elements of shared memory each.
    """
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    storage = STORAGE[dtype]
    VEC = VECTOR_BYTES // itemsize(dtype)
    LOW_BITS, WORDS, PITCH = VEC - 1, WARP // VEC + 1, WARP + VEC  # a word more, where rows begin within one
    AT_ONCE, BATCH = WARP // WORDS, 8
    SLOTS, NUMBERS = RAGGED_WARPS * WARP, 2 * MOST_BLOCKS * WARP if in_clusters else 1
    BLOCK_BYTES = 2 * WARP * kind.bitwidth // 8  # of pairs, that each block of a cluster sends to each
    load, store = elements(dtype)
    end_group, wait_groups = machine.end_group, machine.wait_groups
    copy_in, wait_copies, _, widened, set_narrow = machine.tile_functions(dtype)
    take, _ = running(dtype, 1, BATCH)
    meet_all = meeting(dtype, 1, WARP, in_clusters)
    cluster_arrive, _, _, _ = cluster_words(in_clusters)

    @cuda.jit(device=True, inline="always")
    def copy_rows(x, at, x_step, memory, mine, begins, slope, live, lane, i, end, every):
        word = types.int32(lane % WORDS * VEC)
        i = types.int32(i + lane // WORDS)
        at += i * x_step
        while i < end and lane < AT_ONCE * WORDS:
            before = types.int32(begins + i * slope & LOW_BITS)
            start, to = at - before + word, types.int64(mine + i * PITCH + word)
            if word < before + live:
                if start + VEC <= every:
                    copy_in(x, start, memory, to)
                else:  # x ends within this word
                    for k in range(every - start):
                        set_narrow(memory, to + k, load(x, start + k))
            i = types.int32(i + AT_ONCE)
            at += AT_ONCE * x_step

    @cuda.jit(device=True, inline="always")
    def take_rows(memory, mine, ahead, row, top, total, i, end):
        here = types.int32(mine + i * PITCH)
        while i + BATCH <= end:
            for k in range(BATCH):
                row[k] = widened(memory, types.int64(here + ahead[k]))
            take(row, top, total)
            here = types.int32(here + BATCH * PITCH)
            i = types.int32(i + BATCH)
        if i < end:
            for k in range(BATCH):
                row[k] = LOWEST
                if i + k < end:
                    row[k] = widened(memory, types.int64(here + ahead[k]))
            take(row, top, total)

    def ragged(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share, phase, items):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        memory = cuda.shared.array(0, storage, ALIGNED)
        row = cuda.local.array(BATCH, kind)
        ahead = cuda.local.array(BATCH, types.int32)
        top = cuda.local.array(1, kind)
        total = cuda.local.array(1, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t = types.int64(cuda.threadIdx.x)
        warp, lane = t // WARP, t % WARP
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks)
        rank = block - place * blocks
        across = (neighbours + WARP - 1) // WARP
        group = quotient(place, across)
        column = (place - group * across) * WARP
        live = types.int32(min(neighbours - column, types.int64(WARP)))
        first = rank * share + warp * items
        count = types.int32(min(min(rank * share + share, n) - first, items))
        at = group * x_group + column + first * x_step
        every = (groups - 1) * x_group + (n - 1) * x_step + neighbours
        mine = types.int32(warp * items * PITCH)
        begins, slope = types.int32(phase + at & LOW_BITS), types.int32(x_step & LOW_BITS)
        early = min(count, types.int32((items // 2 + BATCH - 1) // BATCH * BATCH))
        copy_rows(x, at, x_step, memory, mine, begins, slope, live, lane, types.int32(0), early, every)
        end_group()
        copy_rows(x, at, x_step, memory, mine, begins, slope, live, lane, early, count, every)
        end_group()
        for k in range(BATCH):  # of every batch, since rows begin alike after VEC of them
            ahead[k] = types.int32(k * PITCH + (begins + k * slope & LOW_BITS))
        top[0] = LOWEST
        total[0] = ZERO
        mine = types.int32(mine + lane)
        if lane >= live:
            early, count = types.int32(0), types.int32(0)
        wait_groups()
        cuda.syncwarp(EVERY_LANE)  # lanes read what others have copied
        take_rows(memory, mine, ahead, row, top, total, types.int32(0), early)
        wait_copies()
        cuda.syncwarp(EVERY_LANE)
        take_rows(memory, mine, ahead, row, top, total, early, count)
        meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)
        shift, scale = maxima[lane], sums[lane]
        here = mine
        target = group * out_group + column + lane + first * out_step
        i = types.int32(0)
        while i + BATCH <= count:
            for k in range(BATCH):
                row[k] = widened(memory, types.int64(here + ahead[k]))
            for k in range(BATCH):
                store(out, target, exponential(row[k] - shift) * scale)
                target += out_step
            here = types.int32(here + BATCH * PITCH)
            i = types.int32(i + BATCH)
        for k in range(BATCH):
            if i + k < count:
                element = widened(memory, types.int64(here + ahead[k]))
                store(out, target, exponential(element - shift) * scale)
            target += out_step

    return Source(ragged, (dtype, dtype), RAGGED_WARPS * WARP, (dtype, in_clusters), RAGGED_BLOCKS)


@dataclass(frozen=True)
class Ragged:
    """How ``ragged_kernel`` takes columns."""

    warps: int
    items: int
    """Elements of a row for each warp."""
    blocks: int
    """To a cluster."""
    shared: int


def shape(c: Columns, device: Device) -> Ragged | None:
    """As many blocks on an SM as the shared memory of the smallest clusters that fill the device lets in; None for what
    none holds, or where too many lanes would be idle."""
    across = cdiv(c.inner, WARP)
    if c.itemsize > 4 or 4 * c.inner < 3 * across * WARP or c.x_n < c.inner:
        return None
    pitch = WARP * c.itemsize + VECTOR_BYTES
    static = 2 * (RAGGED_WARPS + MOST_BLOCKS) * WARP * itemsize("float32") + BARRIER_BYTES
    for resident in (RAGGED_BLOCKS, 3, 2):
        fits = None
        blocks = 1
        while blocks <= device.cluster_blocks:
            share = cdiv(c.n, blocks)
            warps = min(RAGGED_WARPS, max(2, cdiv(share * pitch, RAGGED_BYTES * WARP)))
            items = cdiv(share, warps)
            shared = warps * items * pitch
            if static + shared <= shared_of(device, resident):
                fits = Ragged(warps, items, blocks, shared)
                if c.outer * across * blocks >= device.multiprocessors or share <= RAGGED_LONG:
                    break
            blocks *= 2
        if fits is not None:
            return fits
    return None


@register("numba", "softmax", "columns_ragged")
@planned()
def columns_ragged(v: View, device: Device, _: None) -> BindView:
    """Columns that begin anywhere in a vector, in the shared memory of a block or of a cluster's blocks."""
    c = side_by_side(v)
    ragged = shape(c, device) if c is not None else None
    if c is None or ragged is None:
        raise UnsupportedProblemError(ID, "these are no columns that the shared memory of a cluster holds")
    return prepare(ragged_kernel(c.dtype, ragged.blocks > 1), device).call(
        within_grid(ID, c.strips(WARP) * ragged.blocks),
        *(*offsets(c), ragged.blocks, cdiv(c.n, ragged.blocks), c.x_phase, ragged.items),
        threads=ragged.warps * WARP,
        shared=ragged.shared,
        cluster=ragged.blocks,
    )
