import math
from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.logsumexp.state import row_state_function
from kernelzoo.kernels.numba.row import row_coords, row_finder, row_start
from kernelzoo.registry import register


@cache
def loss_function(dtype: str, ignore_index: int) -> Any:
    """Return ``compute_loss(x, source, step, labels, i, n, top, total)``: a row's loss, from its label and state."""
    ZERO, NAN, IGNORED = constant(dtype, 0), constant(dtype, np.nan), ignore_index
    (load, _), (load_label, _) = machine.element_accessors(dtype), machine.element_accessors("int64")

    @cuda.jit(device=True, inline="always")
    def compute_loss(x, source, step, labels, i, n, top, total):
        label, picked = load_label(labels, i), NAN
        if 0 <= label < n:
            picked = load(x, source + label * step)
        loss = math.log(total) - (picked - top) + (total - total)  # NaN if the sum is infinite
        return ZERO if label == IGNORED else loss

    return compute_loss


@make_once
def cross_entropy_kernel(dtype: str, tiling: Tiling, ignore_index: int) -> Source:
    kind, state, find_row = WIDE[dtype], row_state_function(dtype, tiling), row_finder(tiling)
    compute_loss, SCRATCH = loss_function(dtype, ignore_index), tiling.scratch
    _, store = machine.element_accessors(dtype)

    def cross_entropy(x, labels, loss, rows, inner, n, x_at, out_at, phase, labels_at):
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        place = row_coords(r, inner)
        source, label = row_start(x_at, place), row_start(labels_at, place)
        top, total = state(x, source, x_at.step, lane, lanes, 0, length, maxima, sums)
        if lane == 0 and r < rows:
            store(loss, row_start(out_at, place), compute_loss(x, source, x_at.step, labels, label, n, top, total))

    pointees = (dtype, "int64", dtype)
    return Source(cross_entropy, pointees, tiling.threads, inputs=2)


@register("numba", "cross_entropy", "rows")
@plan_once()
def rows(v: RowView, ignore_index: int) -> BindView:
    """One pass keeps a running (max, sum) state in each lane. Then the logit of each row's label is read."""
    kernel = partial(cross_entropy_kernel, ignore_index=ignore_index)
    return bind_over_rows("numba/cross_entropy/rows", kernel, vector_tiling(v), v)
