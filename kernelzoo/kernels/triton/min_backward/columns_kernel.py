"""The kernel of ``fused`` and ``split`` for columns: one program takes a strip, or several programs share it."""

import triton
import triton.language as tl

from kernelzoo.kernels.shared import exchange
from kernelzoo.kernels.shared.device_functions import split_gradient
from kernelzoo.kernels.shared.exchange import EXCHANGE, LEAVE, WRITE
from kernelzoo.kernels.triton.device_functions import await_last_launch


@triton.jit
def find_equal(x, start, stride, depth, mask, least, ACC_DTYPE: tl.constexpr, WIDE_OFFSETS: tl.constexpr):
    """Return which elements of a block of columns equal their column's minimum. stride: from one row to the next."""
    down = depth * (stride if WIDE_OFFSETS else stride.to(tl.int32))
    return tl.load(x + start + down, mask, other=float("nan")).to(ACC_DTYPE) == least


@triton.jit(do_not_specialize=["parts", "span"])
def columns_kernel(
    x, y, grad, out, counts, arrivals, outer, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_inner, grad_outer, grad_inner, parts, span,
    ACC_DTYPE: tl.constexpr, PHASE: tl.constexpr, HOLDS: tl.constexpr, WIDE_OFFSETS: tl.constexpr, FOUR: tl.constexpr,
    ELEMENTS: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of ``span`` elements of each column of a strip. If HOLDS, they stay in registers.

    PARTS is 1 for complete columns. Otherwise a program adds up the counts of a strip's parts, PARTS counts at a time.
    """
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    inner = tl.cast(inner, tl.int64) * MULTIPLE
    strips = (inner + COLUMNS - 1) // COLUMNS
    tiles = outer * strips
    program = tl.program_id(0)
    part = program % parts
    groups = tl.num_programs(0) // parts
    lane = tl.arange(0, COLUMNS)[None, :]
    depth = tl.arange(0, ELEMENTS)[:, None]
    begin = part.to(tl.int64) * span
    length = tl.minimum(n - begin, span)
    mine = exchange.alternate_word_set(arrivals, PHASE)
    for i in range((program // parts).to(tl.int64), tiles, groups):
        tile = tl.cast(i, tl.int64)
        # Always 0, but the compiler can't know. It would otherwise keep values that all tiles share in registers.
        nothing = tile >> 62
        left = (tl.minimum(length, ELEMENTS) + nothing).to(tl.int32)
        x_step = (x_n + nothing) * MULTIPLE
        out_step = (out_n + nothing) * MULTIPLE
        slab = tile // strips
        column = tile % strips * COLUMNS + lane
        there = column < inner
        x_start = slab * x_outer * MULTIPLE + begin * x_step + column * x_inner
        out_start = slab * out_outer * MULTIPLE + begin * out_step + column * out_inner
        least = tl.load(y + slab * y_outer + column * y_inner, there, other=0).to(ACC_DTYPE)
        slope = tl.load(grad + slab * grad_outer + column * grad_inner, there, other=0).to(ACC_DTYPE)
        if HOLDS:
            mask = there & (depth < left)
            held = find_equal(x, x_start, x_step, depth, mask, least, ACC_DTYPE, WIDE_OFFSETS)
        if PHASE != WRITE or PARTS == 1:
            if HOLDS:
                count = tl.sum(held.to(tl.int32), 0, keep_dims=True).to(tl.int64)
            else:
                # Every lane counts in 32 bits. Lanes are added up once, after the loop, in 64 bits.
                running = tl.zeros([ELEMENTS, COLUMNS], tl.int32)
                for first in range(0, length, ELEMENTS):
                    mask = there & (depth < tl.minimum(length - first, ELEMENTS).to(tl.int32))
                    start = x_start + first * x_step
                    running += find_equal(x, start, x_step, depth, mask, least, ACC_DTYPE, WIDE_OFFSETS).to(tl.int32)
                count = tl.sum(running.to(tl.int64), 0, keep_dims=True)
        if PARTS > 1:
            words = counts + (mine * tiles + tile) * (COLUMNS * parts) + lane
            if PHASE != WRITE:
                next = (1 - 2 * mine) * tiles * (COLUMNS * parts)
                exchange.publish_word(words, part * COLUMNS, next, count, PHASE, there)
            if PHASE != LEAVE:
                count = tl.zeros([1, COLUMNS], tl.int64)
                for group in range(0, parts, PARTS):
                    peer = group + tl.arange(0, PARTS)[:, None]
                    found = exchange.wait_for_words(words + peer * COLUMNS, (peer < parts) & there, parts, PHASE, FOUR)
                    count += tl.sum(tl.where((peer < parts) & there, found, 0), 0, keep_dims=True)
        if PHASE != LEAVE:
            each, rest = split_gradient(slope, count, DTYPE)
            down = depth * (out_step if WIDE_OFFSETS else out_step.to(tl.int32))
            if HOLDS:
                tl.store(out + out_start + down, tl.where(held, each, rest), there & (depth < left))
            else:
                blocks = tl.cdiv(length, ELEMENTS)
                for k in range(blocks):
                    first = (blocks - 1 - k) * ELEMENTS  # backwards: what was read last is likely still in L2
                    mask = there & (depth < tl.minimum(length - first, ELEMENTS).to(tl.int32))
                    equal = find_equal(x, x_start + first * x_step, x_step, depth, mask, least, ACC_DTYPE, WIDE_OFFSETS)
                    tl.store(out + (out_start + first * out_step) + down, tl.where(equal, each, rest), mask)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")
