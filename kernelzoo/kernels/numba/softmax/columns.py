"""Whole columns in the registers of a block, or of the blocks of a cluster: read once, written once."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import cluster_words, in_vectors, offsets, quotient
from kernelzoo.kernels.numba.dtypes import WIDE, itemsize, lowest
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import Tiling, spread, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import finite_of
from kernelzoo.kernels.numba.softmax.columns_words import by_column, meeting
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, WARP, exponential, machine
from kernelzoo.layout import VECTOR_BYTES, Columns, cdiv
from kernelzoo.registry import register

ID = "numba/softmax/columns"
COLUMN_WARPS = 16
"""Of a block, at most."""


@cache
def columns_kernel(dtype: str, lanes: int, tiles: int, in_clusters: bool) -> Source:
    """Rows side by side, on chip in a block, or in the blocks of a cluster: read once, and written once.

    Each thread has ``tiles`` vectors one below the other, and the (max, sum) pair of each row in them.
    """
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    VEC = VECTOR_BYTES // itemsize(dtype)
    LANES, TILES, WIDE_ROWS = lanes, tiles, lanes * VEC
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, SLOTS = WORDS * tiles, WIDE_ROWS * COLUMN_WARPS
    NUMBERS = 2 * SLOTS
    BLOCK_BYTES = 2 * WIDE_ROWS * kind.bitwidth // 8  # of pairs, that each block of a cluster sends to each
    IDENTITY = spread(dtype, VEC, LOWEST)
    PACKED = machine.is_packed(dtype, VEC)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    finite = finite_of(dtype)
    tops, totals, finishes = by_column(dtype, VEC, WORDS)
    meet_all = meeting(dtype, VEC, lanes, in_clusters)
    cluster_arrive, _, _, _ = cluster_words(in_clusters)

    def columns(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        held = cuda.local.array(HELD, WORD)
        own = cuda.local.array(VEC, kind)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        lane, depth, depths = t % LANES, t // LANES, threads // LANES
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks) if in_clusters else block
        rank = block - place * blocks
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = quotient(place, across)
        column = (place - group * across) * WIDE_ROWS + lane * VEC
        first = rank * share + depth
        end = min(rank * share + share, n) if column < neighbours else types.int64(0)
        source = group * x_group + column
        for tile in range(TILES):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            i = first + tile * depths
            load_vector(x, source + i * x_step, held, tile * WORDS, i < end)

        for k in range(VEC):
            own[k] = LOWEST
        tops(held, TILES, own)
        for k in range(VEC):
            top[k] = own[k]
            own[k] = finite(own[k])
            total[k] = ZERO
        for tile in range(TILES):
            totals(held, tile * WORDS, own, total)

        meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)
        for k in range(VEC):
            shift = maxima[lane * VEC + k]
            total[k] = sums[lane * VEC + k]
            if not PACKED:  # what is -inf alone was taken with 0, but stays 0 by this factor whatever the shift is
                total[k] *= exponential(top[k] - shift)
            top[k] = shift
        for tile in range(TILES):
            finishes(held, tile * WORDS, top, total)

        target = group * out_group + column
        for tile in range(TILES):
            i = first + tile * depths
            store_vector(out, target + i * out_step, held, tile * WORDS, i < end)

    return Source(columns, (dtype, dtype), COLUMN_WARPS * WARP, (dtype, lanes, tiles, in_clusters))


def shape(c: Columns, device: Device) -> tuple[int, int, int, int] | None:
    """``(lanes, tiles, blocks, threads)``: 64 bytes of neighbouring rows, or a sector of 32 for longer columns; eight
    vectors a thread, four in float64, whose exponential takes registers. Blocks of 256 threads, if they suffice: an SM
    runs three. None for what a cluster doesn't hold."""
    tiles = 4 if c.dtype == "float64" else 8
    for lanes, most_threads in ((4, 256), (4, 512), (2, 512)):
        blocks = cdiv(c.n, most_threads // lanes * tiles)
        if blocks <= device.cluster_blocks:
            share = cdiv(c.n, blocks)
            threads = max(cdiv(share, tiles) * lanes, lanes * c.vector)
            return lanes, tiles, blocks, cdiv(threads, WARP) * WARP
    return None


@register("numba", "softmax", "columns")
@planned()
def columns(v: View, device: Device, _: None) -> BindView:
    """Whole columns in the registers of a block, or of the blocks of a cluster."""
    c = in_vectors(v)
    if c is None:
        raise UnsupportedProblemError(ID, "these are no columns that whole aligned vectors cover")
    found = shape(c, device)
    if found is None:
        raise UnsupportedProblemError(ID, f"a column of {c.n} elements is more than registers hold")
    lanes, tiles, blocks, threads = found
    grid, share = within_grid(ID, c.strips(lanes * c.vector) * blocks), cdiv(c.n, blocks)
    kernel = prepare(columns_kernel(c.dtype, lanes, tiles, blocks > 1), device)
    return kernel.call(grid, *offsets(c), blocks, share, threads=threads, cluster=blocks)
