from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import minimum
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.min.row_tiles import Knobs, rows_tiling, thread_min_function
from kernelzoo.kernels.numba.row import block_reduce, row_offsets, thread_mapping, tile_accessors
from kernelzoo.registry import register


@make_once
def rows_deferred_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, load_tile, _, load_edge, _ = tile_accessors(dtype, tiling, HIGHEST, branchless_edges=True)
    _, store = machine.element_accessors(dtype)
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    thread_min, mapping = thread_min_function(dtype, tiling), thread_mapping(tiling)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    ROWS, SCRATCH = tiling.rows, tiling.scratch
    STACK, ONCE = tiling.stack, not (tiling.flexible or tiling.across)  # short rows are read at once
    HELD = WORDS * STACK

    def deferred(x, out, rows, inner, n, x_at, out_at, phase):
        tiles = cuda.local.array(HELD, WORD)
        smallest = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r0 = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            smallest[level] = HIGHEST
        first = types.int64(0)
        while first < n:
            for level in range(STACK):
                r = r0 + level * ROWS
                length = n if r < rows else types.int64(0)
                source, _ = row_offsets(r, inner, x_at, out_at)
                head, end = bounds(phase + source, length)
                load_tile(x, source, x_at.step, lane, lanes, head + first, end, tiles, level * WORDS)
                if first > 0:  # edges come after the first tile, whose loads would wait for them
                    head, length = types.int64(0), types.int64(0)
                smallest[level] = minimum(smallest[level], load_edge(x, source, lane, head, end, length))
            for level in range(STACK):
                smallest[level] = thread_min(tiles, level * WORDS, smallest[level])
            first = n if ONCE else first + lanes * SIZE
        for level in range(STACK):
            r = r0 + level * ROWS
            value = block_min(smallest[level], scratch)
            if lane == 0 and r < rows:
                _, target = row_offsets(r, inner, x_at, out_at)
                store(out, target, value)

    blocks = 8 if ONCE and tiling.threads <= 128 else 1  # 1024 threads an SM with 64 registers each
    return Source(deferred, (dtype, dtype), tiling.threads, blocks)


@register("numba", "min", "rows_deferred_block")
@plan_once(Knobs)
def rows_deferred_block(v: RowView, knobs: Knobs) -> BindView:
    """A group of threads reduces each row. Each lane keeps a minimum. After the loop, lanes are reduced once."""
    return bind_over_rows("numba/min/rows_deferred_block", rows_deferred_kernel, rows_tiling(v, knobs), v)
