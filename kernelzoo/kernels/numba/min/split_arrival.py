from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import minimum
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.launch import BindView, Source, check_grid, make_once, plan_once, prepare_kernel
from kernelzoo.kernels.numba.min.row_tiles import thread_min_function, vectors_in_flight
from kernelzoo.kernels.numba.row import block_reduce, row_offsets, thread_mapping, tile_accessors
from kernelzoo.kernels.numba.tiling import RowView, Tiling, one_row_tiling, strided_tiling
from kernelzoo.layout import cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

LINE = 128
"""A number of elements that is at least a cache line in every dtype. Each chunk begins at a multiple of it."""


@form_knobs
class Knobs:
    split_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="of a split row, on each SM")


@make_once
def split_kernel(dtype: str, tiling: Tiling) -> Source:
    """A counter per group of rows tells which block arrives last. That block resets it for the next launch."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, load_tile, _, load_edge, _ = tile_accessors(dtype, tiling, HIGHEST, branchless_edges=True)
    _, store = machine.element_accessors(dtype)
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    thread_min, mapping = thread_min_function(dtype, tiling), thread_mapping(tiling)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    ROWS, SCRATCH, arrive = tiling.rows, tiling.scratch, machine.arrive

    def split(x, partials, counters, out, rows, inner, n, x_at, out_at, phase, chunks, span):
        tile = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        is_last = cuda.shared.array(1, types.int32)
        t = types.int64(cuda.threadIdx.x)
        lane, lanes, group = mapping()
        block = types.int64(cuda.blockIdx.x)
        chunk, team = block % chunks, block // chunks
        r = team * ROWS + group
        length = n if r < rows else types.int64(0)
        source, target = row_offsets(r, inner, x_at, out_at)
        head, end = bounds(phase + source, length)
        smallest = HIGHEST
        first = head + chunk * span
        last = min(first + span, end)
        if chunk > 0:
            head, length = types.int64(0), types.int64(0)  # the edges are the first chunk's
        while first < last or length > 0:
            load_tile(x, source, x_at.step, lane, lanes, first, last, tile, 0)
            smallest = minimum(smallest, load_edge(x, source, lane, head, end, length))
            head, length = types.int64(0), types.int64(0)
            smallest = thread_min(tile, 0, smallest)
            first += lanes * SIZE
        smallest = block_min(smallest, scratch)
        if lane == 0 and r < rows:
            partials[r * chunks + chunk] = smallest
        cuda.syncthreads()
        if t == 0:
            is_last[0] = 1 if arrive(counters, team, chunks - 1) == chunks - 1 else 0
        cuda.syncthreads()
        if is_last[0] == 1:
            smallest = HIGHEST
            part = lane if r < rows else chunks
            while part < chunks:
                smallest = minimum(smallest, partials[r * chunks + part])
                part += lanes
            smallest = block_min(smallest, scratch)
            if lane == 0 and r < rows:
                store(out, target, smallest)

    return Source(split, (dtype, kind, types.int32, dtype), tiling.threads)


def choose_chunks(v: RowView, tiling: Tiling, processors: int, knobs: Knobs) -> tuple[int, int]:
    """Return ``(chunks, span)``: chunks per row and elements per chunk. An SM has up to ``split_blocks`` blocks, or
    four if rows are strided. A block loads at least one batch of vectors."""
    blocks = (4 if tiling.across else knobs.split_blocks) * processors
    groups = cdiv(v.total, tiling.rows)
    tile = tiling.lanes * tiling.read_size
    chunks = max(1, min(cdiv(v.n, tile), blocks // min(blocks, groups)))
    span = cdiv(v.n, chunks * LINE) * LINE
    return cdiv(v.n, span), span


@register("numba", "min", "split_arrival")
@plan_once(Knobs)
def split_arrival(v: RowView, knobs: Knobs) -> BindView:
    """Several blocks share each row, and store partial minima. The last block to arrive reduces them."""
    # Each thread has eight vectors in flight.
    tiling = strided_tiling(v, 256, 8) if v.is_strided else one_row_tiling(v, 256, vectors_in_flight(v.dtype, v.vec))
    chunks, span = choose_chunks(v, tiling, v.device.multiprocessors, knobs)
    groups = cdiv(v.total, tiling.rows)
    grid = check_grid("numba/min/split_arrival", groups * chunks)
    threads = tiling.count_lanes(span) * tiling.rows
    kernel = prepare_kernel(split_kernel(v.dtype, tiling), v.device)
    return kernel.bind_with_workspace(v.total * chunks, groups, grid, *v.kernel_args, chunks, span, threads=threads)
