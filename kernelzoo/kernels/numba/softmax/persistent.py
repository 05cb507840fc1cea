from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import exponential, maximum
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_accessors, row_offsets, thread_mapping
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, type_and_constants
from kernelzoo.kernels.numba.softmax.fused import Knobs, block_tiling
from kernelzoo.registry import register


@make_once
def persistent_kernel(dtype: str, tiling: Tiling) -> Source:
    """Block p processes rows p, p + programs, p + 2 programs, ... It reads the next row before it reduces the current
    one: a software pipeline of two stages, both in registers."""
    kind, _, ONE, LOWEST = type_and_constants(dtype)
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    load_row, store_row = row_accessors(dtype, tiling, LOWEST)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)
    finite, thread_max, thread_sum, normalize, _ = softmax_functions(dtype, tiling.vec, WORDS)
    mapping, ROWS, SCRATCH = thread_mapping(tiling), tiling.rows, tiling.scratch

    def persistent(x, out, rows, inner, n, x_at, out_at, phase):
        row = cuda.local.array(WORDS, WORD)
        following = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        stride = types.int64(cuda.gridDim.x) * ROWS
        r0 = types.int64(cuda.blockIdx.x) * ROWS
        length = n if r0 + group < rows else types.int64(0)
        source, target = row_offsets(r0 + group, inner, x_at, out_at)
        edge = load_row(x, source, x_at.step, phase + source, lane, lanes, length, row, 0)
        while r0 < rows:
            r = r0 + stride + group
            next_length = n if r < rows else types.int64(0)
            next_source, next_target = row_offsets(r, inner, x_at, out_at)
            start = phase + next_source
            next_edge = load_row(x, next_source, x_at.step, start, lane, lanes, next_length, following, 0)

            # Each barrier keeps the other reduction's scratch memory until all threads have read it.
            m = finite(block_max(maximum(thread_max(row, 0), edge), maxima))
            edge = exponential(edge - m)
            scale = ONE / block_sum(edge + thread_sum(row, 0, m), sums)
            normalize(row, 0, m, scale)
            store_row(out, target, out_at.step, phase + source, lane, lanes, length, row, 0, edge * scale)

            for k in range(WORDS):
                row[k] = following[k]
            edge, source, target, length = next_edge, next_source, next_target, next_length
            r0 += stride

    return Source(persistent, (dtype, dtype), tiling.threads)


@register("numba", "softmax", "persistent")
@plan_once(Knobs)
def persistent(v: RowView, knobs: Knobs) -> BindView:
    """A grid fills the device once, and each block strides over rows. The next row loads while one is computed."""
    # Two rows share 512 threads with up to 128 registers each. Each load of a strided row also needs an address.
    tiling = block_tiling(v, 512, 4, knobs)
    return bind_over_rows("numba/softmax/persistent", persistent_kernel, tiling, v, resident=True)
