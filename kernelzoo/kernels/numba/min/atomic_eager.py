from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.min.atomics import Knobs, bind_atomic_min, chunk_min_function
from kernelzoo.kernels.numba.row import row_offsets
from kernelzoo.registry import register


@make_once
def atomic_eager_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each block reduces ``span`` columns of ``slab`` rows. It writes each tile's minima by atomics immediately.

    In Triton's atomic_eager, ``tiling.rows`` is BLOCK_M, ``span`` is BLOCK_N, and a tile's width is SUB_BLOCK_N."""
    kind, atomic_min = WIDE[dtype], machine.atomic_min
    mapping, chunk_min, ROWS, SCRATCH = chunk_min_function(dtype, tiling)

    def eager(x, results, rows, inner, n, x_at, out_at, phase, chunks, span, slab):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        block = types.int64(cuda.blockIdx.x)
        chunk, r0 = block % chunks, block // chunks * slab
        done = types.int64(0)
        while done < slab:
            r = r0 + done + group
            length = n if r < rows else types.int64(0)
            source, target = row_offsets(r, inner, x_at, out_at)
            smallest = chunk_min(x, source, x_at.step, lane, lanes, length, phase, chunk, span, scratch)
            if lane == 0 and r < rows:
                atomic_min(results, target, smallest)
            done += ROWS

    return Source(eager, (dtype, kind), tiling.threads)


@register("numba", "min", "atomic_eager")
@plan_once(Knobs)
def atomic_eager(v: RowView, knobs: Knobs) -> BindView:
    """Several blocks share each row. Each block writes the minima of a tile of rows by atomics immediately."""
    return bind_atomic_min("numba/min/atomic_eager", atomic_eager_kernel, 2**40, v, knobs)
