"""One block per row, the row of both inputs in registers: read once, written once."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.softmax_backward.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax_backward.tiling import whole_row
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """One group of threads per row, which it reads once, keeps in registers, and writes once."""
    kind, ZERO = WIDE[dtype], type(one(dtype))(0)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, ZERO, kept=True)
    _, _, reduce_sum = reductions(tiling, ZERO)
    products, finish = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def fused(
        grad, y, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner,
    ):  # fmt: skip
        grads = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)  # threads without a row go along, for the reductions need whole warps
        outer, place = seat_of(r, inner)
        source, other = outer * x_outer + place * x_inner, outer * y_outer + place * y_inner
        head, end = bounds(phase + source, n)
        read(grad, source, x_step, lane, lanes, head, end, grads, 0)
        read(y, other, y_step, lane, lanes, head, end, weights, 0)
        edge = read_edge(grad, source, lane, head, end, n)
        weight = read_edge(y, other, lane, head, end, n)

        total = reduce_sum(products(grads, weights, 0) + edge * weight, sums)
        finish(grads, weights, 0, total)

        target = outer * out_outer + place * out_inner
        write(out, target, out_step, lane, lanes, head, end, grads, 0)
        write_edge(out, target, lane, head, end, n, weight * (edge - total))

    return Source(fused, (dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "softmax_backward", "fused")
@planned()
def fused(v: View, device: Device, _: None) -> BindView:
    """One block per row, the row of both inputs in registers: read once, written once."""
    id, tiling = "numba/softmax_backward/fused", whole_row(v)
    if tiling is None:
        raise UnsupportedProblemError(id, f"two rows of {v.n} elements are more than a block's registers hold")
    return over_rows(id, fused_kernel(v.dtype, tiling), tiling, v, device)
