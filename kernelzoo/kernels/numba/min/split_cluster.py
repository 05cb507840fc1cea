"""A cluster of blocks to a row, whose warps send their minima to the first block's shared memory (sm_90 and later)."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.launch import BindView, View, has_clusters, planned, prepare, within_grid
from kernelzoo.kernels.numba.min.words import deep, folding
from kernelzoo.kernels.numba.row import Tiling, access, begin, elements, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import EVERY_LANE, WARP, minimum
from kernelzoo.layout import cdiv
from kernelzoo.registry import register

ID = "numba/min/split_cluster"
LINE = 128
"""Elements: a block's share begins on a line of the cache whatever the dtype."""
THREADS = 512
"""Of a block."""


@cache
def cluster_kernel(dtype: str, tiling: Tiling) -> Source:
    """A cluster of ``blocks`` blocks per row, ``share`` elements each: every warp sends its minimum to the first
    block's shared memory, and that block reduces them once all have come. The others don't wait for that."""
    from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for

    kind, HIGHEST = WIDE[dtype], highest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST, before=True)
    _, store = elements(dtype)
    smallest_of = folding(dtype, tiling)
    BYTES = kind.bitwidth // 8

    def cluster(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, blocks, share):
        tile = cuda.local.array(WORDS, WORD)
        minima = cuda.shared.array(512, kind)  # of up to 16 blocks of 32 warps
        barrier = cuda.shared.array(1, types.int64)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        warps = threads // WARP
        cluster_arrive(barrier, blocks * warps * BYTES)
        block = types.int64(cuda.blockIdx.x)
        r, rank = block // blocks, block % blocks
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        smallest = HIGHEST
        first = head + rank * share
        last = min(first + share, end)
        length = n
        if rank > 0:
            head, length = types.int64(0), types.int64(0)  # the edges are the first block's
        while first < last or length > 0:
            read(x, source, x_step, t, threads, first, last, tile, 0)
            smallest = minimum(smallest, read_edge(x, source, t, head, end, length))
            head, length = types.int64(0), types.int64(0)
            smallest = smallest_of(tile, 0, smallest)
            first += threads * SIZE
        for step in range(5):
            smallest = minimum(smallest, cuda.shfl_xor_sync(EVERY_LANE, smallest, 16 >> step))
        cluster_wait()  # the other blocks have begun: their shared memory is there
        if t % WARP == 0:
            send(minima, rank * warps + t // WARP, (smallest,), barrier, types.int64(0))
        if rank == 0 and t < WARP:
            wait_for(barrier)
            smallest = HIGHEST
            i = t
            while i < blocks * warps:
                smallest = minimum(smallest, minima[i])
                i += WARP
            for step in range(5):
                smallest = minimum(smallest, cuda.shfl_xor_sync(EVERY_LANE, smallest, 16 >> step))
            if t == 0:
                store(out, target, smallest)

    return Source(cluster, (dtype, dtype), tiling.threads, (dtype, tiling))


def cluster_tiling(v: View) -> Tiling:
    """Up to 1024 threads: so each has 64 registers, and an SM runs two blocks of 512."""
    return Tiling(1024, 1, deep(v.dtype, v.vec), v.vec, v.edges, flexible=True)


@register("numba", "min", "split_cluster")
@planned()
def split_cluster(v: View, device: Device, _: None) -> BindView:
    """A cluster of blocks per row, whose warps send their minima to the first block; sm_90 and later."""
    if not has_clusters(device):
        raise UnsupportedProblemError(ID, f"clusters need compute capability 9.0, and this is {device.name}")
    blocks = 8 if v.total <= 16 else 4
    grid, share = within_grid(ID, v.total * blocks), cdiv(v.n, blocks * LINE) * LINE
    kernel = prepare(cluster_kernel(v.dtype, cluster_tiling(v)), device)
    return kernel.call(grid, *v.offsets, blocks, share, threads=THREADS, cluster=blocks)
