from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import ALIGNED, WARP, exponential, maximum
from kernelzoo.kernels.numba.dtypes import STORAGE, itemsize
from kernelzoo.kernels.numba.launch import BindView, Source, make_once, plan_once, prepare_kernel, shared_bytes
from kernelzoo.kernels.numba.row import row_offsets, tile_accessors, wait_for_blocks
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, state_functions, type_and_constants
from kernelzoo.kernels.numba.softmax.on_chip import HELD, MOST_WARPS, on_chip_row_functions, share_per_block
from kernelzoo.kernels.numba.tiling import RowView, Tiling, one_row_tiling
from kernelzoo.layout import VECTOR_BYTES, cdiv
from kernelzoo.registry import register


@make_once
def grid_kernel(dtype: str, tiling: Tiling) -> Source:
    """Do the same as split_cluster's kernel without a cluster. A cooperative launch makes all blocks resident.

    ``chunks`` blocks store (max, sum) pairs, and wait for each other at a counter that is never reset. Shared memory
    keeps only 16-byte vectors. Elements that don't fit on chip are read a second time, ideally from the L2 cache."""
    kind, _, ONE, LOWEST = type_and_constants(dtype)
    WORD, WORDS, SIZE, VEC = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.vec
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, LOWEST)
    finite, thread_max, thread_sum, normalize, rescale = softmax_functions(dtype, tiling.vec, WORDS)
    copy_share, online_update, merge_states, store_share = on_chip_row_functions(dtype, tiling)
    _, rescale_sum, warp_merge = state_functions(dtype)
    KEEPS, storage = VECTOR_BYTES // itemsize(dtype) == VEC, STORAGE[dtype]

    def grid(x, pairs, counters, out, rows, inner, n, x_at, out_at, phase, chunks, share, kept):
        row = cuda.local.array(WORDS, WORD)
        batch = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(MOST_WARPS, kind)
        sums = cuda.shared.array(MOST_WARPS, kind)
        memory = cuda.shared.array(0, storage, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        block = types.int64(cuda.blockIdx.x)
        groups = types.int64(cuda.gridDim.x) // chunks
        r, chunk = block // chunks, block % chunks
        while r < rows:
            source, target = row_offsets(r, inner, x_at, out_at)
            head, end = bounds(phase + source, n)
            first = head + chunk * share
            last = min(first + share, end)
            beyond = first + threads * (SIZE + kept * VEC)
            load_tile(x, source, x_at.step, t, threads, first, last, row, 0)
            if KEEPS:
                copy_share(x, source, t, threads, first, last, memory, kept)
            edge = LOWEST
            if chunk == 0:
                edge = load_edge(x, source, t, head, end, n)
            held_max = maximum(thread_max(row, 0), edge)
            own = finite(held_max)
            m, s = held_max, thread_sum(row, 0, own) + exponential(edge - own)
            if KEEPS:
                m, s = online_update(memory, t, threads, first, last, kept, m, s)
            own_max = m
            i = beyond
            while i < last:
                load_tile(x, source, x_at.step, t, threads, i, last, batch, 0)
                more = maximum(m, thread_max(batch, 0))
                s = rescale_sum(m, s, more) + thread_sum(batch, 0, finite(more))
                m = more
                i += threads * SIZE

            m, s = warp_merge(m, s)
            if t % WARP == 0:
                maxima[t // WARP] = m
                sums[t // WARP] = s
            cuda.syncthreads()
            if t < WARP:
                m, s = merge_states(maxima, sums, threads // WARP)
                if t == 0:
                    place = (r * chunks + chunk) * 2
                    pairs[place] = m
                    pairs[place + 1] = s
                    wait_for_blocks(counters, r, chunks)
            cuda.syncthreads()
            m, s = LOWEST, exponential(LOWEST)
            i = t % WARP
            while i < chunks:
                part_max, part_sum = pairs[(r * chunks + i) * 2], pairs[(r * chunks + i) * 2 + 1]
                more = maximum(m, part_max)
                s = rescale_sum(m, s, more) + rescale_sum(part_max, part_sum, more)
                m = more
                i += WARP
            m, s = warp_merge(m, s)
            shift, scale = finite(m), ONE / s

            normalize(row, 0, shift, rescale(held_max, shift, scale))
            store_tile(out, target, out_at.step, t, threads, first, last, row, 0)
            if KEEPS:
                store_share(memory, out, target, t, threads, first, last, kept, own_max, shift, scale)
            i = beyond
            while i < last:
                load_tile(x, source, x_at.step, t, threads, i, last, batch, 0)
                thread_sum(batch, 0, shift)
                normalize(batch, 0, shift, scale)
                store_tile(out, target, out_at.step, t, threads, i, last, batch, 0)
                i += threads * SIZE
            if chunk == 0:
                store_edge(out, target, t, head, end, n, exponential(edge - shift) * scale)
            r += groups

    return Source(grid, (dtype, kind, types.int64, dtype), tiling.threads)


def grid_shape(v: RowView) -> tuple[int, int]:
    """Return ``(chunks, threads)``. All SMs share few rows. Otherwise, groups of SMs that just fit a row loop over
    rows."""
    vectors, threads, processors = v.vectors_per_row, 512, v.device.multiprocessors
    capacity = threads * HELD + (shared_bytes(v.device) // VECTOR_BYTES if v.has_full_vectors else 0)
    chunks = processors // v.planned if v.planned <= processors else min(processors, cdiv(vectors, capacity))
    return min(chunks, max(1, vectors // threads)), threads


@register("numba", "softmax", "split_grid")
@plan_once()
def split_grid(v: RowView) -> BindView:
    """The device's resident blocks share the current rows, and keep them on chip while they wait for each other."""
    chunks, threads = grid_shape(v)
    # Threads have 128 registers: two batches of 8 vectors, or of 4 in float64, whose exponential needs registers.
    tiling = one_row_tiling(v, threads, HELD if v.dtype != "float64" else 4)
    share, kept = share_per_block(v, chunks, threads, tiling.tiles)
    kept = min(kept, shared_bytes(v.device) // (threads * VECTOR_BYTES)) if v.has_full_vectors else 0
    groups = min(v.total, v.device.multiprocessors // chunks)
    return prepare_kernel(grid_kernel(v.dtype, tiling), v.device).bind_with_workspace(
        *(v.total * chunks * 2, v.total),
        *(groups * chunks, *v.kernel_args, chunks, share, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cooperative=True,
    )
