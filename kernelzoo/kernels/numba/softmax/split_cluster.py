from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.cluster import arm, cluster_arrive, cluster_wait, send, wait_for
from kernelzoo.kernels.numba.device_functions import ALIGNED, WARP, divide_uint32, exponential, maximum
from kernelzoo.kernels.numba.dtypes import STORAGE
from kernelzoo.kernels.numba.launch import BindView, check_grid, has_clusters, plan_once, prepare_kernel, shared_bytes
from kernelzoo.kernels.numba.row import row_offsets, tile_accessors, warp_reduce_function, warp_sum
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, state_functions, type_and_constants
from kernelzoo.kernels.numba.softmax.exact import sum_functions, view_for_exact_sums
from kernelzoo.kernels.numba.softmax.on_chip import HELD, MOST_WARPS, on_chip_row_functions, share_per_block
from kernelzoo.kernels.numba.source import Source, make_once
from kernelzoo.kernels.numba.tiling import RowView, Tiling, one_row_tiling
from kernelzoo.layout import VECTOR_BYTES, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

MOST_BLOCKS = 16
"""The most blocks of a cluster on any device. Every device with clusters has 8."""
LARGE, LARGE_TILES = 512, 4
"""Threads of a large block, and the vectors in each thread's registers. An SM runs two large blocks."""


@form_knobs
class Knobs:
    # With 12, two blocks of 512 threads take 192 kB.
    kept: int = knob(12, among=(8, 12, 16), unit="vectors", why="of a thread in a cluster's shared memory, at most")
    kept_rows: int = knob(
        4, among=(1, 4, 16), unit="rows per SM", why="of float32, from which two blocks keep a row so, if they can"
    )
    # An SM runs several smaller blocks.
    cluster_threads: int = knob(
        288,
        among=(160, 224, 288, 384, 512),
        unit="threads",
        why="of a cluster's blocks, above which there are twice as many",
    )


@make_once
def cluster_kernel(dtype: str, tiling: Tiling) -> Source:
    """A cluster of ``blocks`` blocks, with ``share`` elements each, keeps a row on chip. As in Quack's softmax
    (Dao-AILab/quack), each warp sends its (max, sum) state to every block. All blocks merge them in the same order."""
    kind, _, ONE, LOWEST = type_and_constants(dtype)
    WORD, WORDS, NUMBERS = tiling.register_type(dtype), tiling.registers(dtype), 2 * MOST_BLOCKS * MOST_WARPS
    PAIR_BYTES, storage = 2 * kind.bitwidth // 8, STORAGE[dtype]
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, LOWEST, keep_in_l2=True)
    finite, thread_max, thread_sum, normalize, rescale = softmax_functions(dtype, tiling.vec, WORDS, tiling.exact)
    copy_share, online_update, merge_states, store_share = on_chip_row_functions(dtype, tiling, keep_in_l2=True)
    _, _, warp_merge = state_functions(dtype)
    _, larger, term, total = sum_functions(dtype, tiling.exact)
    all_max, SLOTS = warp_reduce_function(larger), MOST_BLOCKS * MOST_WARPS

    # Exchange the row's maximum first, then the sum as an integer.
    def exact_cluster(x, out, rows, inner, n, x_at, out_at, phase, blocks, share, kept):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, types.int64)
        barrier = cuda.shared.array(1, types.int64)
        sums_barrier = cuda.shared.array(1, types.int64)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        warps, lane = threads // WARP, t % WARP
        count = blocks * warps
        arm(sums_barrier, count * 8)
        cluster_arrive(barrier, count * PAIR_BYTES // 2)
        block = types.int64(cuda.blockIdx.x)
        r = divide_uint32(block, blocks)
        rank = block - r * blocks
        source, target = row_offsets(r, inner, x_at, out_at)
        head, end = bounds(phase + source, n)
        first = head + rank * share
        last = min(first + share, end)
        load_tile(x, source, x_at.step, t, threads, first, last, row, 0)
        edge = LOWEST
        if rank == 0:
            edge = load_edge(x, source, t, head, end, n)
        place = rank * warps + t // WARP

        top = all_max(larger(thread_max(row, 0), edge))
        cluster_wait()  # the other blocks have begun, so their shared memory exists
        if lane < blocks:
            send(maxima, place, (top,), barrier, lane)
        wait_for(barrier)
        i = lane
        while i < count:
            top = larger(top, maxima[i])
            i += WARP
        top = all_max(top)
        m = finite(top)
        edge = exponential(edge - m)
        s = warp_sum(term(edge) + thread_sum(row, 0, m))
        if lane < blocks:
            send(sums, place, (s,), sums_barrier, lane)
        wait_for(sums_barrier)
        s = types.int64(0)
        i = lane
        while i < count:
            s += sums[i]
            i += WARP
        scale = ONE / total(warp_sum(s), top)
        normalize(row, 0, m, scale)
        store_tile(out, target, out_at.step, t, threads, first, last, row, 0)
        if rank == 0:
            store_edge(out, target, t, head, end, n, edge * scale)

    def cluster(x, out, rows, inner, n, x_at, out_at, phase, blocks, share, kept):
        row = cuda.local.array(WORDS, WORD)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        barrier = cuda.shared.array(1, types.int64)
        memory = cuda.shared.array(0, storage, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        warps = threads // WARP
        if blocks > 1:
            cluster_arrive(barrier, blocks * warps * PAIR_BYTES)
        block = types.int64(cuda.blockIdx.x)
        r = divide_uint32(block, blocks)
        rank = block - r * blocks
        source, target = row_offsets(r, inner, x_at, out_at)
        head, end = bounds(phase + source, n)
        first = head + rank * share
        last = min(first + share, end)
        load_tile(x, source, x_at.step, t, threads, first, last, row, 0)
        copy_share(x, source, t, threads, first, last, memory, kept)
        edge = LOWEST
        if rank == 0:
            edge = load_edge(x, source, t, head, end, n)

        held_max = maximum(thread_max(row, 0), edge)
        own = finite(held_max)
        m, s = held_max, thread_sum(row, 0, own) + exponential(edge - own)
        m, s = online_update(memory, t, threads, first, last, kept, m, s)
        own_max = m
        m, s = warp_merge(m, s)
        place = 2 * (rank * warps + t // WARP)
        if blocks > 1:
            cluster_wait()  # the other blocks have begun, so their shared memory exists
            if t % WARP < blocks:
                send(pairs, place, (m, s), barrier, t % WARP)
            wait_for(barrier)
        else:
            if t % WARP == 0:
                pairs[place], pairs[place + 1] = m, s
            cuda.syncthreads()

        m, s = merge_states(pairs[0::2], pairs[1::2], blocks * warps)
        shift, scale = finite(m), ONE / s
        normalize(row, 0, shift, rescale(held_max, shift, scale))
        store_tile(out, target, out_at.step, t, threads, first, last, row, 0)
        store_share(memory, out, target, t, threads, first, last, kept, own_max, shift, scale)
        if rank == 0:
            store_edge(out, target, t, head, end, n, exponential(edge - shift) * scale)

    return Source(exact_cluster if tiling.exact else cluster, (dtype, dtype), tiling.threads)


def shared_vectors_per_thread(device: Device) -> int:
    """Return how many vectors fit in shared memory per thread of a large block, beside all warps' (max, sum) pairs."""
    return (shared_bytes(device) - 2 * MOST_BLOCKS * MOST_WARPS * 8) // (LARGE * VECTOR_BYTES)


def large_blocks_per_row(v: RowView, knobs: Knobs) -> int:
    """Return how many blocks of 512 threads it takes to keep a row in registers and shared memory."""
    return cdiv(v.vectors_per_row, LARGE * (LARGE_TILES + min(shared_vectors_per_thread(v.device), knobs.kept)))


def small_cluster_shape(v: RowView, knobs: Knobs) -> tuple[int, int, int] | None:
    """Return ``(blocks, threads, tiles)`` of a small cluster that keeps a row only in registers, 8 vectors per thread.
    Return None for longer rows, for float64, and for many float32 rows: these get two large blocks each if they fit."""
    many = not v.exact and v.planned >= knobs.kept_rows * v.device.multiprocessors
    if v.itemsize > 4 or (v.itemsize == 4 and many and large_blocks_per_row(v, knobs) <= 2):
        return None
    blocks = next((c for c in (2, 4, 8) if v.vectors_per_row <= c * knobs.cluster_threads * HELD), MOST_BLOCKS)
    threads = cdiv(v.vectors_per_row, blocks * HELD * WARP) * WARP
    return (blocks, threads, HELD) if threads <= 512 else None


def wastes_sms(v: RowView, knobs: Knobs) -> bool:
    """Whether an SM would have at most one block of 512 threads, or two if float64 rows need clusters of 16 blocks."""
    large = large_blocks_per_row(v, knobs)
    return large * v.planned <= (2 if v.itemsize == 8 and large >= MOST_BLOCKS else 1) * v.device.multiprocessors


def cluster_shape(v: RowView, knobs: Knobs) -> tuple[int, int, int] | None:
    """Return ``(blocks, threads, tiles)`` of a cluster for a row. Return None if the device has no cluster that fits
    it, or if rows have no 16-byte vectors. Rows with exact sums are kept only in registers."""
    if not has_clusters(v.device) or v.is_strided or not (v.has_full_vectors or v.exact):
        return None
    found = small_cluster_shape(v, knobs)
    if found is None:
        least = 4 if wastes_sms(v, knobs) else 1
        if v.vectors_per_row > 2048 and v.planned <= 2 * v.device.multiprocessors:
            least = max(2, least)
        blocks = max(least, large_blocks_per_row(v, knobs))
        held = cdiv(v.vectors_per_row, LARGE * MOST_BLOCKS) <= LARGE_TILES + shared_vectors_per_thread(v.device)
        if blocks > MOST_BLOCKS + held:
            return None
        found = min(blocks, MOST_BLOCKS), LARGE, LARGE_TILES
    return found if found[0] <= v.device.cluster_blocks else None


@register("numba", "softmax", "split_cluster")
@plan_once(Knobs)
def split_cluster(v: RowView, knobs: Knobs) -> BindView:
    """A thread-block cluster keeps a row in registers and shared memory: one read, one write."""
    id, v = "numba/softmax/split_cluster", view_for_exact_sums(v)
    shape = cluster_shape(v, knobs)
    if shape is None:
        raise UnsupportedProblemError(
            id, f"a row of {v.n} elements is no cluster's: too long, not in whole vectors, or a device without clusters"
        )
    blocks, threads, tiles = shape
    tiling = one_row_tiling(v, MOST_WARPS * WARP, tiles)  # so each has 64 registers: an SM runs two blocks of 512
    share, kept = share_per_block(v, blocks, threads, tiles)
    return prepare_kernel(cluster_kernel(v.dtype, tiling), v.device).bind(
        *(check_grid(id, v.total * blocks), *v.kernel_args, blocks, share, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cluster=blocks,
    )
