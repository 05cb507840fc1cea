from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import exponential
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.lanes import lane_access, vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import row_coords, row_finder, row_start
from kernelzoo.registry import register


@make_once
def backward_kernel(dtype: str, tiling: Tiling) -> Source:
    (load_one, _), (load, value, store) = machine.element_accessors(dtype), lane_access(dtype, tiling)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    kind, find_row = WIDE[dtype], row_finder(tiling)

    def backward(x, y, grad, out, rows, inner, n, x_at, out_at, phase, y_at, grad_at):
        words = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        lane, lanes, r, length = find_row(rows, n)
        if r >= rows:
            return
        place = row_coords(r, inner)
        source, target = row_start(x_at, place), row_start(out_at, place)
        of_row = load_one(y, row_start(y_at, place))
        slope = load_one(grad, row_start(grad_at, place))
        for start in range(0, length, lanes * SIZE):
            load(x, source, x_at.step, lane, lanes, start, length, words)
            for j in range(SIZE):
                values[j] = slope * exponential(value(words, j) - of_row)
            store(out, target, out_at.step, lane, lanes, start, length, values)

    return Source(backward, (dtype,) * 4, tiling.threads, inputs=3)


@register("numba", "logsumexp_backward", "rows")
@plan_once()
def rows(v: RowView) -> BindView:
    """The result is exp(x - y) * grad, with y and grad of the element's row: one read and one write."""
    return bind_over_rows("numba/logsumexp_backward/rows", backward_kernel, vector_tiling(v), v)
