"""The kernel of ``fused`` and ``split`` for columns: one program takes a strip, or several programs share it."""

import triton
import triton.language as tl

from kernelzoo.kernels.shared import exchange
from kernelzoo.kernels.shared.exchange import EXCHANGE, LEAVE, WRITE
from kernelzoo.kernels.triton.device_functions import add_exactly, add_up, await_last_launch


@triton.jit
def load_columns(x, start, stride, depth, mask, WIDE_OFFSETS: tl.constexpr):
    """Load a block of columns at offset ``start``. stride: from one row to the next. Masked elements are 0."""
    down = depth * (stride if WIDE_OFFSETS else stride.to(tl.int32))
    return tl.load(x + start + down, mask, other=0)


@triton.jit(do_not_specialize=["parts", "span"])
def columns_kernel(
    grad, y, out, sums, arrivals, outer, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner, parts, span,
    ACC_DTYPE: tl.constexpr, PHASE: tl.constexpr, HOLDS: tl.constexpr, WIDE_OFFSETS: tl.constexpr, FOUR: tl.constexpr,
    ELEMENTS: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of ``span`` elements of each column of a strip. If HOLDS, they stay in registers.

    PARTS is 1 for complete columns. Otherwise a program adds up the sums of a strip's parts, PARTS sums at a time.
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
        grad_step = (grad_n + nothing) * MULTIPLE
        y_step = (y_n + nothing) * MULTIPLE
        out_step = (out_n + nothing) * MULTIPLE
        slab = tile // strips * MULTIPLE
        column = tile % strips * COLUMNS + lane
        there = column < inner
        grad_start = slab * grad_outer + begin * grad_step + column * grad_inner
        y_start = slab * y_outer + begin * y_step + column * y_inner
        out_start = slab * out_outer + begin * out_step + column * out_inner
        if HOLDS:
            mask = there & (depth < left)
            held = load_columns(grad, grad_start, grad_step, depth, mask, WIDE_OFFSETS)
            weights = load_columns(y, y_start, y_step, depth, mask, WIDE_OFFSETS)
        if PHASE != WRITE or PARTS == 1:
            if HOLDS:
                total = tl.sum(held.to(ACC_DTYPE) * weights.to(ACC_DTYPE), 0, keep_dims=True)
            else:
                running = tl.zeros([ELEMENTS, COLUMNS], ACC_DTYPE)
                lost = tl.zeros([ELEMENTS, COLUMNS], ACC_DTYPE)
                for first in range(0, length, ELEMENTS):
                    mask = there & (depth < tl.minimum(length - first, ELEMENTS).to(tl.int32))
                    start = grad_start + first * grad_step
                    one = load_columns(grad, start, grad_step, depth, mask, WIDE_OFFSETS).to(ACC_DTYPE)
                    one *= load_columns(y, y_start + first * y_step, y_step, depth, mask, WIDE_OFFSETS).to(ACC_DTYPE)
                    running, lost = add_exactly(running, lost, one)
                total = tl.sum(add_up(running, lost), 0, keep_dims=True)
        if PARTS > 1:
            words = sums + (mine * tiles + tile) * (COLUMNS * parts) + lane
            if PHASE != WRITE:
                next = (1 - 2 * mine) * tiles * (COLUMNS * parts)
                exchange.publish_word(words, part * COLUMNS, next, exchange.pack_number(total), PHASE, there)
            if PHASE != LEAVE:
                # Every program adds up all sums of its columns in the same order, so all get the same bits.
                total = tl.zeros([1, COLUMNS], ACC_DTYPE)
                for group in range(0, parts, PARTS):
                    peer = group + tl.arange(0, PARTS)[:, None]
                    known = (peer < parts) & there
                    found = exchange.wait_for_words(words + peer * COLUMNS, known, parts, PHASE, FOUR)
                    total += tl.sum(tl.where(known, exchange.unpack_number(found, ACC_DTYPE), 0.0), 0, keep_dims=True)
        if PHASE != LEAVE:
            if HOLDS:
                result = (weights.to(ACC_DTYPE) * (held.to(ACC_DTYPE) - total)).to(DTYPE)
                # tile >> 61 is 0 too, so that each element's mask isn't kept in registers. If the 0 came from a sum, it
                # would differ by column for the compiler, and each element would be stored separately.
                mask = there & (depth < left + (tile >> 61).to(tl.int32))
                down = depth * (out_step if WIDE_OFFSETS else out_step.to(tl.int32))
                tl.store(out + out_start + down, result, mask)
            else:
                blocks = tl.cdiv(length, ELEMENTS)
                for k in range(blocks):
                    first = (blocks - 1 - k) * ELEMENTS  # backwards: what was read last is likely still in L2
                    mask = there & (depth < tl.minimum(length - first, ELEMENTS).to(tl.int32))
                    start = grad_start + first * grad_step
                    one = load_columns(grad, start, grad_step, depth, mask, WIDE_OFFSETS).to(ACC_DTYPE)
                    two = load_columns(y, y_start + first * y_step, y_step, depth, mask, WIDE_OFFSETS).to(ACC_DTYPE)
                    down = depth * (out_step if WIDE_OFFSETS else out_step.to(tl.int32))
                    tl.store(out + (out_start + first * out_step) + down, (two * (one - total)).to(DTYPE), mask)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")
