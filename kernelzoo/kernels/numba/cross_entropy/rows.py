"""Lanes go along a row, and each keeps a running (max, sum) state; then one reads the label's logit."""

from functools import cache, partial

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import logarithm, machine
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.logsumexp.state import row_state
from kernelzoo.kernels.numba.row import row_coords, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def cross_entropy_kernel(dtype: str, tiling: Tiling, ignore_index: int) -> Source:
    kind, ZERO, NAN, IGNORED = WIDE[dtype], number(dtype, 0), number(dtype, np.nan), ignore_index
    state, mapping = row_state(dtype, tiling), thread_mapping(tiling)
    load, store = machine.element_functions(dtype)
    load_label, _ = machine.element_functions("int64")
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def cross_entropy(
        x, labels, loss, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        labels_outer, labels_step, labels_inner,
    ):  # fmt: skip
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        outer, place = row_coords(r, inner)
        source = outer * x_outer + place * x_inner
        top, total = state(x, source, x_step, lane, lanes, n, maxima, sums)
        if lane == 0 and r < rows:
            label = load_label(labels, outer * labels_outer + place * labels_inner)
            picked = NAN
            if 0 <= label < n:
                picked = load(x, source + label * x_step)
            result = logarithm(total) - (picked - top) + (top - top)  # NaN of an infinite maximum
            store(loss, outer * out_outer + place * out_inner, ZERO if label == IGNORED else result)

    pointees = (dtype, "int64", dtype)
    return Source(cross_entropy, pointees, tiling.threads, (dtype, tiling, ignore_index), inputs=2)


@register("numba", "cross_entropy", "rows")
@planned()
def rows(v: View, device: Device, _: None, ignore_index: int) -> BindView:
    """One pass that keeps a running (max, sum) state in each lane, and one element more."""
    kernel = partial(cross_entropy_kernel, ignore_index=ignore_index)
    return over_rows("numba/cross_entropy/rows", kernel, lanes_tiling(v), v, device)
