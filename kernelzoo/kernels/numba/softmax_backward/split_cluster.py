from numba import cuda
from numba.cuda import types

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for
from kernelzoo.kernels.numba.device_functions import WARP, divide_uint32
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import add_exactly, add_rounding_errors
from kernelzoo.kernels.numba.launch import BindView, check_grid, has_clusters, plan_once, prepare_kernel
from kernelzoo.kernels.numba.row import row_coords, row_start, tile_accessors, warp_sum
from kernelzoo.kernels.numba.softmax_backward.arithmetic import gradient_functions
from kernelzoo.kernels.numba.source import Source, make_once
from kernelzoo.kernels.numba.tiling import RowView, Tiling, most_vectors_per_thread, one_row_tiling
from kernelzoo.layout import cdiv
from kernelzoo.registry import register

BLOCK_LIMIT = 512
"""The most threads per block. Each has up to 128 registers."""
MOST_BLOCKS = 16
"""The most blocks of a cluster on any device. Every device with clusters has 8."""
MODERATE = 256
"""The most threads of a moderate block. With more, twice as many blocks are used instead, two per SM."""
LINE = 8
"""Vectors per cache line. The block's elements begin on a cache line if the row does."""


@make_once
def cluster_kernel(dtype: str, tiling: Tiling, held: bool) -> Source:
    """A cluster of ``blocks`` blocks, with ``share`` elements each, takes a row. If ``held``, registers keep the row.

    Each warp sends its sum to every block of its cluster. All blocks add these sums in the same order."""
    kind, ZERO = WIDE[dtype], constant(dtype, 0)
    WORD, WORDS, SIZE, HELD = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, held
    NUMBERS, BYTES = MOST_BLOCKS * BLOCK_LIMIT // WARP, kind.bitwidth // 8
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, ZERO, keep_in_l2=True)
    sum_products, compute_gradient = gradient_functions(dtype, tiling.vec, WORDS)

    def cluster(grad, y, out, rows, inner, n, x_at, out_at, phase, y_at, blocks, share):
        grads = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        sums = cuda.shared.array(NUMBERS, kind)
        barrier = cuda.shared.array(1, types.int64)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        warps = threads // WARP
        cluster_arrive(barrier, blocks * warps * BYTES)
        block = types.int64(cuda.blockIdx.x)
        r = divide_uint32(block, blocks)
        rank = block - r * blocks
        place = row_coords(r, inner)
        source, other = row_start(x_at, place), row_start(y_at, place)
        head, end = bounds(phase + source, n)
        first = head + rank * share
        last = min(first + share, end)
        if HELD:
            load_tile(grad, source, x_at.step, t, threads, first, last, grads, 0)
            load_tile(y, other, y_at.step, t, threads, first, last, weights, 0)
        edge, weight = ZERO, ZERO
        if rank == 0:
            edge = load_edge(grad, source, t, head, end, n)
            weight = load_edge(y, other, t, head, end, n)

        i = first
        if HELD:
            total = sum_products(grads, weights, 0) + edge * weight
        else:
            exact = (edge * weight, ZERO)
            while i < last:
                load_tile(grad, source, x_at.step, t, threads, i, last, grads, 0)
                load_tile(y, other, y_at.step, t, threads, i, last, weights, 0)
                exact = add_exactly(exact, sum_products(grads, weights, 0))
                i += threads * SIZE
            total = add_rounding_errors(exact)
        total = warp_sum(total)
        cluster_wait()  # the other blocks have begun, so their shared memory exists
        if t % WARP < blocks:
            send(sums, rank * warps + t // WARP, (total,), barrier, t % WARP)
        wait_for(barrier)
        total = ZERO
        part = t % WARP
        while part < blocks * warps:
            total += sums[part]
            part += WARP
        total = warp_sum(total)

        target = row_start(out_at, place)
        if HELD:
            compute_gradient(grads, weights, 0, total)
            store_tile(out, target, out_at.step, t, threads, first, last, grads, 0)
        else:  # backwards: what was read last is the likeliest to be still in cache
            while i > first:
                i -= threads * SIZE
                load_tile(grad, source, x_at.step, t, threads, i, last, grads, 0)
                load_tile(y, other, y_at.step, t, threads, i, last, weights, 0)
                compute_gradient(grads, weights, 0, total)
                store_tile(out, target, out_at.step, t, threads, i, last, grads, 0)
        if rank == 0:
            store_edge(out, target, t, head, end, n, weight * (edge - total))

    return Source(cluster, (dtype, dtype, dtype), tiling.threads, inputs=2)


def cluster_tiling(v: RowView, held: bool) -> Tiling:
    """Return a tiling of the most vectors per thread. If registers don't keep rows, a thread has a quarter of these."""
    return one_row_tiling(v, BLOCK_LIMIT, max(1, most_vectors_per_thread(v) // (1 if held else 4)))


def cluster_shape(v: RowView) -> tuple[int, int, int] | None:
    """Return ``(blocks, share, threads)`` of a cluster that keeps a row in registers, of moderate blocks if possible.
    Return None if the row is too long."""
    deep = most_vectors_per_thread(v)
    granted = [blocks for blocks in (2, 4, 8, MOST_BLOCKS) if blocks <= v.device.cluster_blocks]
    for threads in (MODERATE, BLOCK_LIMIT):
        for blocks in granted:
            share = cdiv(v.vectors_per_row, blocks * LINE) * LINE
            if share <= threads * deep:
                return blocks, share * v.vec, cdiv(share, deep * WARP) * WARP
    return None


@register("numba", "softmax_backward", "split_cluster")
@plan_once()
def split_cluster(v: RowView) -> BindView:
    """A cluster of blocks keeps each row in registers. If a row is too long, the largest cluster reads it twice."""
    id, shape = "numba/softmax_backward/split_cluster", cluster_shape(v)
    if not has_clusters(v.device):
        raise UnsupportedProblemError(id, f"clusters need compute capability 9.0, and this is {v.device.name}")
    held = shape is not None
    most = min(MOST_BLOCKS, v.device.cluster_blocks)
    share = cdiv(v.vectors_per_row, most * LINE) * LINE * v.vec
    blocks, share, threads = shape or (most, share, BLOCK_LIMIT)
    grid = check_grid(id, v.total * blocks)
    kernel = prepare_kernel(cluster_kernel(v.dtype, cluster_tiling(v, held), held), v.device)
    return kernel.bind(grid, *v.kernel_args, blocks, share, threads=threads, cluster=blocks)
