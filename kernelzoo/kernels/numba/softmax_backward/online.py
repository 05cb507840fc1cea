"""One block per row of any length, which is read twice: a running sum of products, then the results."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.softmax_backward.arithmetic import add, arithmetic, whole
from kernelzoo.kernels.numba.softmax_backward.tiling import streaming
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register


@cache
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps the running sum of its share, met once at the end; a second pass reads again and writes."""
    kind, ZERO = WIDE[dtype], type(one(dtype))(0)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, ZERO)
    _, _, reduce_sum = reductions(tiling, ZERO)
    products, finish = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def online(
        grad, y, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner,
    ):  # fmt: skip
        grads = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        outer, place = seat_of(r, inner)
        source, other = outer * x_outer + place * x_inner, outer * y_outer + place * y_inner
        head, end = bounds(phase + source, n)
        edge = read_edge(grad, source, lane, head, end, n)
        weight = read_edge(y, other, lane, head, end, n)
        total, carry = edge * weight, ZERO
        first = head
        while first < end:
            read(grad, source, x_step, lane, lanes, first, end, grads, 0)
            read(y, other, y_step, lane, lanes, first, end, weights, 0)
            total, carry = add(total, carry, products(grads, weights, 0))
            first += lanes * SIZE

        total = reduce_sum(whole(total, carry), sums)

        target = outer * out_outer + place * out_inner
        # Backwards: what was read last is the likeliest to be in a cache still.
        while first > head:
            first -= lanes * SIZE
            read(grad, source, x_step, lane, lanes, first, end, grads, 0)
            read(y, other, y_step, lane, lanes, first, end, weights, 0)
            finish(grads, weights, 0, total)
            write(out, target, out_step, lane, lanes, first, end, grads, 0)
        write_edge(out, target, lane, head, end, n, weight * (edge - total))

    return Source(online, (dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "softmax_backward", "online")
@planned()
def online(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: a running sum of products in one pass, a second pass that writes."""
    tiling = streaming(v)
    return over_rows("numba/softmax_backward/online", online_kernel(v.dtype, tiling), tiling, v, device)
