from functools import partial

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import exponential
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import element_indexer, lane_access, vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.logsumexp.state import row_state_function
from kernelzoo.kernels.numba.row import row_coords, row_finder, row_start
from kernelzoo.registry import register


@make_once
def backward_kernel(dtype: str, tiling: Tiling, ignore_index: int) -> Source:
    kind, ZERO, ONE, NAN = WIDE[dtype], constant(dtype, 0), constant(dtype, 1), constant(dtype, np.nan)
    state, find_row = row_state_function(dtype, tiling), row_finder(tiling)
    place_in, IGNORED = element_indexer(tiling), ignore_index
    (load_slope, _), (load_label, _) = machine.element_accessors(dtype), machine.element_accessors("int64")
    load, value, store = lane_access(dtype, tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.scratch

    def backward(x, labels, grad, out, rows, inner, n, x_at, out_at, phase, labels_at, grad_at):
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        words = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        lane, lanes, r, length = find_row(rows, n)
        place = row_coords(r, inner)
        label, slope = types.int64(-1), NAN
        if r < rows:
            label = load_label(labels, row_start(labels_at, place))
        if 0 <= label < n:
            slope = load_slope(grad, row_start(grad_at, place))
        source, target = row_start(x_at, place), row_start(out_at, place)
        top, total = state(x, source, x_at.step, lane, lanes, 0, length, maxima, sums)
        inverse = ONE / total + (total - total)  # NaN if the sum is infinite
        for start in range(0, length, lanes * SIZE):
            load(x, source, x_at.step, lane, lanes, start, length, words)
            for j in range(SIZE):
                share = exponential(value(words, j) - top) * inverse
                result = slope * (share - ONE if place_in(lane, lanes, start, j) == label else share)
                values[j] = ZERO if label == IGNORED else result
            store(out, target, out_at.step, lane, lanes, start, length, values)

    pointees = (dtype, "int64", dtype, dtype)
    return Source(backward, pointees, tiling.threads, inputs=3)


@register("numba", "cross_entropy_backward", "rows")
@plan_once()
def rows(v: RowView, ignore_index: int) -> BindView:
    """One pass finds the (max, sum) states of rows. A second pass reads the rows again, from cache, and writes."""
    kernel = partial(backward_kernel, ignore_index=ignore_index)
    return bind_over_rows("numba/cross_entropy_backward/rows", kernel, vector_tiling(v), v)
