"""One block per two rows of any length, which are read once: a running sum of products, which the block leaves."""

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
def dot_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps the running sum of its share, met once at the end; sums with what they round off."""
    kind, ZERO = WIDE[dtype], type(one(dtype))(0)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, _, read_edge, _ = access(dtype, tiling, ZERO)
    _, _, reduce_sum = reductions(tiling, ZERO)
    products, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def dots(
        x, y, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner,
    ):  # fmt: skip
        mine = cuda.local.array(WORDS, WORD)
        others = cuda.local.array(WORDS, WORD)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        outer, place = seat_of(r, inner)
        source, other = outer * x_outer + place * x_inner, outer * y_outer + place * y_inner
        head, end = bounds(phase + source, n)
        total = read_edge(x, source, lane, head, end, n) * read_edge(y, other, lane, head, end, n)
        carry = ZERO
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, mine, 0)
            read(y, other, y_step, lane, lanes, first, end, others, 0)
            total, carry = add(total, carry, products(mine, others, 0))
            first += lanes * SIZE
        total = reduce_sum(whole(total, carry), sums)
        if lane == 0 and r < rows:
            out[outer * out_outer + place * out_inner] = total

    return Source(dots, (dtype, dtype, kind), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "vecdot", "online")
@planned()
def online(v: View, device: Device, _: None) -> BindView:
    """One block per two rows of any length: a running sum of products in one pass."""
    tiling = streaming(v)
    return over_rows("numba/vecdot/online", dot_kernel(v.dtype, tiling), tiling, v, device)
