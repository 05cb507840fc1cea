from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import exponential
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.lanes import row_io, vector_tiling
from kernelzoo.kernels.numba.launch import BindView, Source, Tiling, View, bind_over_rows, kernel, planned
from kernelzoo.kernels.numba.row import row_coords, row_finder, row_start
from kernelzoo.registry import register


@kernel
def backward_kernel(dtype: str, tiling: Tiling) -> Source:
    (load_one, _), (load, value, store) = machine.element_functions(dtype), row_io(dtype, tiling)
    WORD, WORDS, SIZE = tiling.word(dtype), tiling.words(dtype), tiling.size
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
@planned()
def rows(v: View) -> BindView:
    """The result is exp(x - y) * grad, with y and grad of the element's row: one read and one write."""
    return bind_over_rows("numba/logsumexp_backward/rows", backward_kernel, vector_tiling(v), v)
