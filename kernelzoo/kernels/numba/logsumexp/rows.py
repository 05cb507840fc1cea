import math
from functools import partial

from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.lanes import vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.logsumexp.state import row_state_function
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@make_once
def logsumexp_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, state, find_row = WIDE[dtype], row_state_function(dtype, tiling), row_finder(tiling)
    _, store = machine.element_accessors(out_dtype)
    SCRATCH = tiling.scratch

    def logsumexp(x, out, rows, inner, n, x_at, out_at, phase):
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        top, total = state(x, source, x_at.step, lane, lanes, 0, length, maxima, sums)
        if lane == 0 and r < rows:
            store(out, target, top + math.log(total))  # log(0) is -inf here; in Python it is an error

    return Source(logsumexp, (dtype, out_dtype), tiling.threads)


@register("numba", "logsumexp", "rows")
@plan_once()
def rows(v: RowView) -> BindView:
    """One pass keeps a running (max, sum) state in each lane. Lanes merge their states after the loop."""
    kernel = partial(logsumexp_kernel, out_dtype=v.out_dtype)
    return bind_over_rows("numba/logsumexp/rows", kernel, vector_tiling(v), v)
