from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for
from kernelzoo.kernels.numba.device_functions import ALIGNED, WARP, add, divide_uint32, exponential, maximum, opaque
from kernelzoo.kernels.numba.dtypes import identity_word, is_packed, itemsize, register_type
from kernelzoo.kernels.numba.launch import BindView, Source, check_grid, make_once, plan_once, prepare_kernel
from kernelzoo.kernels.numba.row import warp_reduce_function
from kernelzoo.kernels.numba.softmax.arithmetic import state_functions, type_and_constants
from kernelzoo.kernels.numba.tiling import RowView, column_arguments, find_vector_columns
from kernelzoo.layout import VECTOR_BYTES, Columns, cdiv
from kernelzoo.registry import register

ID = "numba/softmax/columns"
COLUMN_WARPS = 16
"""The most warps of a block."""
TEAM = 8
"""The number of lanes that together merge the pairs of a row. It divides a warp."""


@make_once
def columns_kernel(dtype: str, lanes: int, tiles: int, in_clusters: bool) -> Source:
    """Each of ``lanes`` threads reads a vector: one element of VEC adjacent rows. Other threads read further down.

    Each thread has ``tiles`` vectors, and a (max, sum) pair for each row in them. Pairs are merged over a warp, a block
    and a cluster, in a fixed order. A cluster's blocks send pairs to ``pairs``, whose bytes ``barrier`` counts."""
    kind, ZERO, ONE, LOWEST = type_and_constants(dtype)
    VEC = VECTOR_BYTES // itemsize(dtype)
    PACKED = is_packed(dtype, VEC)
    LANES, TILES, WIDE_ROWS = lanes, tiles, lanes * VEC
    WORD, WORDS = register_type(dtype, VEC), VEC // 2 if PACKED else VEC
    HELD, SLOTS, NUMBERS = WORDS * tiles, WIDE_ROWS * COLUMN_WARPS, 2 * WIDE_ROWS * COLUMN_WARPS
    BLOCK_BYTES = 2 * WIDE_ROWS * kind.bitwidth // 8  # of pairs, which each block of a cluster sends to each block
    IDENTITY = identity_word(dtype, VEC, LOWEST)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    low, high, pack, packed_max, _ = machine.packed_functions(dtype)
    larger, (finite, rescale_sum, _) = packed_max if PACKED else maximum, state_functions(dtype)
    team_max, team_sum = warp_reduce_function(maximum, TEAM), warp_reduce_function(add, TEAM)
    depth_max, depth_sum = warp_reduce_function(maximum, WARP, lanes), warp_reduce_function(add, WARP, lanes)

    @cuda.jit(device=True, inline="always")
    def merge(maxima, sums, count, row, part):
        # Merge ``count`` pairs of a row by a team of lanes. Each gets the same bits.
        m = LOWEST
        i = part
        while i < count:
            m = maximum(m, maxima[i * WIDE_ROWS + row])
            i = types.int32(i + TEAM)
        m = team_max(m)
        shift = finite(m)
        s = ZERO
        i = part
        while i < count:
            s += sums[i * WIDE_ROWS + row] * exponential(maxima[i * WIDE_ROWS + row] - shift)
            i = types.int32(i + TEAM)
        return m, team_sum(s)

    def columns(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        held = cuda.local.array(HELD, WORD)
        shift = cuda.local.array(VEC, kind)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        lane, depth, depths = t % LANES, t // LANES, threads // LANES
        block = types.int64(cuda.blockIdx.x)
        place = divide_uint32(block, blocks) if in_clusters else block
        rank = block - place * blocks
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = divide_uint32(place, across)
        column = (place - group * across) * WIDE_ROWS + lane * VEC
        first = rank * share + depth
        end = min(rank * share + share, n) if column < neighbours else types.int64(0)
        source = group * x_group + column
        for tile in range(TILES):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            i = first + tile * depths
            load_vector(x, source + i * x_step, held, tile * WORDS, i < end)

        for j in range(WORDS):
            word = held[j]
            for tile in range(1, TILES):
                word = larger(word, held[tile * WORDS + j])
            if PACKED:
                top[2 * j], top[2 * j + 1] = maximum(LOWEST, low(word)), maximum(LOWEST, high(word))
            else:
                top[j] = maximum(LOWEST, word)
        for k in range(VEC):
            shift[k] = finite(top[k])
            total[k] = ZERO
        for k in range(HELD):
            j = k % WORDS
            if PACKED:
                word = opaque(held[k])
                total[2 * j] += exponential(low(word) - shift[2 * j])
                total[2 * j + 1] += exponential(high(word) - shift[2 * j + 1])
            else:
                held[k] = exponential(held[k] - shift[j])
                total[j] += held[k]

        for k in range(VEC):
            m = depth_max(top[k])
            s = depth_sum(rescale_sum(top[k], total[k], m))
            if t % WARP < LANES:
                maxima[t // WARP * WIDE_ROWS + lane * VEC + k] = m
                sums[t // WARP * WIDE_ROWS + lane * VEC + k] = s
        cuda.syncthreads()
        part, warps = types.int32(t % TEAM), types.int32(threads // WARP)
        if in_clusters:
            cluster_wait()  # the other blocks have begun, so their shared memory exists
            row = types.int32(t // TEAM)
            while row < WIDE_ROWS:
                m, s = merge(maxima, sums, warps, row, part)
                peer = part
                while peer < blocks:
                    send(pairs, 2 * (rank * WIDE_ROWS + row), (m, s), barrier, types.int64(peer))
                    peer = types.int32(peer + TEAM)
                row = types.int32(row + threads // TEAM)
            wait_for(barrier)
        row = types.int32(t // TEAM)
        while row < WIDE_ROWS:
            if in_clusters:
                m, s = merge(pairs[0::2], pairs[1::2], types.int32(blocks), row, part)
            else:
                m, s = merge(maxima, sums, warps, row, part)
            if part == 0:
                maxima[row] = finite(m)
                sums[row] = ONE / s
            row = types.int32(row + threads // TEAM)
        cuda.syncthreads()

        for k in range(VEC):
            shift[k], total[k] = maxima[lane * VEC + k], sums[lane * VEC + k]
            if not PACKED:  # a part of only -inf subtracted 0; this factor keeps it 0 whatever the shift is
                total[k] *= exponential(top[k] - shift[k])
        target = group * out_group + column
        for tile in range(TILES):
            for j in range(WORDS):
                k = tile * WORDS + j
                if PACKED:
                    word = opaque(held[k])
                    first_result = exponential(low(word) - shift[2 * j]) * total[2 * j]
                    held[k] = pack(first_result, exponential(high(word) - shift[2 * j + 1]) * total[2 * j + 1])
                else:
                    held[k] *= total[j]
            i = first + tile * depths
            store_vector(out, target + i * out_step, held, tile * WORDS, i < end)

    return Source(columns, (dtype, dtype), COLUMN_WARPS * WARP)


def block_shape(c: Columns, device: Device) -> tuple[int, int, int, int] | None:
    """Return ``(lanes, tiles, blocks, threads)``, or None if a column fits in no cluster. A block is 64 bytes wide, or
    a sector of 32 bytes for longer columns. A thread has eight vectors, or four in float64, whose exponential needs
    registers. Blocks have 256 threads if these suffice, so that an SM runs three."""
    tiles = 4 if c.dtype == "float64" else 8
    for lanes, most_threads in ((4, 256), (4, 512), (2, 512)):
        blocks = cdiv(c.n, most_threads // lanes * tiles)
        if blocks <= device.cluster_blocks:
            share = cdiv(c.n, blocks)
            threads = max(cdiv(share, tiles) * lanes, lanes * c.load_width)
            return lanes, tiles, blocks, cdiv(threads, WARP) * WARP
    return None


@register("numba", "softmax", "columns")
@plan_once()
def columns(v: RowView) -> BindView:
    """One block, or the blocks of a cluster, keep complete columns in registers."""
    c = find_vector_columns(v)
    found = None if c is None else block_shape(c, v.device)
    if c is None or found is None:
        raise UnsupportedProblemError(ID, "these are no columns of whole aligned vectors that registers hold")
    lanes, tiles, blocks, threads = found
    grid, share = check_grid(ID, c.strip_count(lanes * c.load_width) * blocks), cdiv(c.n, blocks)
    kernel = prepare_kernel(columns_kernel(c.dtype, lanes, tiles, blocks > 1), v.device)
    return kernel.bind(grid, *column_arguments(c), blocks, share, threads=threads, cluster=blocks)
