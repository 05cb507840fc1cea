import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import constant
from kernelzoo.kernels.numba.launch import BindView, Source, make_once, plan_once, prepare_kernel
from kernelzoo.kernels.numba.min_backward.arithmetic import gradient_functions, gradient_split_function
from kernelzoo.kernels.numba.row import block_reduce, row_coords, row_start, tile_accessors, wait_for_blocks, warp_sum
from kernelzoo.kernels.numba.tiling import RowView, Tiling, one_row_tiling
from kernelzoo.layout import cdiv
from kernelzoo.registry import register

THREADS = 512
"""Threads per block. Each has up to 128 registers."""
LINE = 8
"""Vectors per cache line. The block's elements begin on a cache line if the row does."""


@make_once
def grid_kernel(dtype: str, tiling: Tiling) -> Source:
    """``chunks`` blocks share a row, with ``share_of_row`` elements each. They store their counts, and wait for each
    other at a counter that is never reset. Then each block adds up the same counts. A block keeps its first batch of
    elements in registers. It reads the others a second time, ideally from the L2 cache."""
    NAN, SIZE, SCRATCH = constant(dtype, np.nan), tiling.read_size, tiling.scratch
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, NAN)
    load, _ = machine.element_accessors(dtype)
    _, _, block_sum = block_reduce(tiling, np.int64(0))
    count_matches, compute_gradient = gradient_functions(dtype, tiling.vec, WORDS)
    split_gradient = gradient_split_function(dtype)

    def grid(
        x, y, grad, counts, counters, out, rows, inner, n, x_at, out_at, phase, y_at, grad_at, chunks, share_of_row
    ):
        row = cuda.local.array(WORDS, WORD)
        more = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, types.int64)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        block = types.int64(cuda.blockIdx.x)
        groups = types.int64(cuda.gridDim.x) // chunks
        r, chunk = block // chunks, block % chunks
        while r < rows:
            place = row_coords(r, inner)
            least = load(y, row_start(y_at, place))
            slope = load(grad, row_start(grad_at, place))
            source, target = row_start(x_at, place), row_start(out_at, place)
            head, end = bounds(phase + source, n)
            first = head + chunk * share_of_row
            last = min(first + share_of_row, end)
            load_tile(x, source, x_at.step, t, threads, first, last, row, 0)
            edge = NAN
            if chunk == 0:
                edge = load_edge(x, source, t, head, end, n)
            count = count_matches(row, 0, least) + types.int64(edge == least)
            beyond = first + threads * SIZE
            i = beyond
            while i < last:
                load_tile(x, source, x_at.step, t, threads, i, last, more, 0)
                count += count_matches(more, 0, least)
                i += threads * SIZE

            count = block_sum(count, scratch)
            if t == 0:
                counts[r * chunks + chunk] = count
                wait_for_blocks(counters, r, chunks)
            cuda.syncthreads()
            count = types.int64(0)
            part = t % WARP
            while part < chunks:
                count += counts[r * chunks + part]
                part += WARP
            share, rest = split_gradient(slope, warp_sum(count))

            while i > beyond:  # backwards: what was read last is the likeliest to be still in cache
                i -= threads * SIZE
                load_tile(x, source, x_at.step, t, threads, i, last, more, 0)
                compute_gradient(more, 0, least, share, rest)
                store_tile(out, target, out_at.step, t, threads, i, last, more, 0)
            compute_gradient(row, 0, least, share, rest)
            store_tile(out, target, out_at.step, t, threads, first, last, row, 0)
            if chunk == 0:
                store_edge(out, target, t, head, end, n, share if edge == least else rest)
            r += groups

    pointees = (dtype, dtype, dtype, types.int64, types.int64, dtype)
    return Source(grid, pointees, tiling.threads, inputs=3)


def grid_shape(v: RowView, tiling: Tiling, processors: int) -> tuple[int, int]:
    """Return ``(chunks, share)``. If rows are few, all SMs share them. If not, groups of SMs loop over rows."""
    chunks = processors // v.planned if v.planned <= processors else cdiv(v.vectors_per_row, THREADS * tiling.tiles)
    chunks = max(1, min(chunks, processors, v.vectors_per_row // THREADS))
    share = cdiv(cdiv(v.vectors_per_row, chunks), LINE) * LINE
    return cdiv(v.vectors_per_row, share), share * v.vec


@register("numba", "min_backward", "split_grid")
@plan_once()
def split_grid(v: RowView) -> BindView:
    """The device's resident blocks share the current rows, and keep them on chip while they wait for each other."""
    # Vectors in registers, besides a batch of as many. Single elements are half as many: each has an address.
    tiles = 4 if v.has_full_vectors else max(1, (16 if v.vec > 1 else 8) // v.vec // (2 if v.itemsize == 8 else 1))
    tiling = one_row_tiling(v, THREADS, tiles)
    chunks, share = grid_shape(v, tiling, v.device.multiprocessors)
    groups = min(v.total, v.device.multiprocessors // chunks)
    return prepare_kernel(grid_kernel(v.dtype, tiling), v.device).bind_with_workspace(
        *(v.total * chunks, v.total, groups * chunks, *v.kernel_args, chunks, share),
        threads=tiling.count_lanes(min(v.n, share)),
        cooperative=True,
    )
