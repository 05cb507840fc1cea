"""Min's gradient of rows that several programs share. On NVIDIA GPUs, they exchange counts in a co-operative launch. On
AMD GPUs and in the interpreter, programs can't wait for each other: one launch stores counts, another writes."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared import exchange, halves
from kernelzoo.kernels.shared.device_functions import split_gradient
from kernelzoo.kernels.shared.exchange import EXCHANGE, LEAVE, WRITE
from kernelzoo.kernels.triton import shares
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, row_start
from kernelzoo.kernels.triton.gradients import split_launch
from kernelzoo.kernels.triton.min_backward.columns_kernel import columns_kernel
from kernelzoo.kernels.triton.shares import load_packs
from kernelzoo.launch import Launch
from kernelzoo.registry import register

NOTHING_TWICE = tl.constexpr(0x7FFF7FFF)
"""A word of two NaNs, in float16 and in bfloat16. It pads words, because NaN equals no element."""


@triton.jit
def count_equal(
    share, least, DTYPE: tl.constexpr, ACC_DTYPE: tl.constexpr,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each thread's number of elements equal to ``least``. A word packs two elements. To save registers, two
    16-byte packs of words are unpacked at a time, or one in float16."""
    if share.dtype != tl.int32:
        result = tl.sum(tl.sum((share.to(ACC_DTYPE) == least).to(tl.int32), 2), 1)
    elif (1 if tl.float16 == DTYPE else 2) < PACKS:
        one, two = shares.split_packs_in_two(share, THREADS, PACKS, VECTOR // 2)
        result = count_equal(one, least, DTYPE, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
        result += count_equal(two, least, DTYPE, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        low, high = halves.unpack_halves(share, DTYPE)
        result = tl.sum(tl.sum((low == least).to(tl.int32) + (high == least).to(tl.int32), 2), 1)
    return result


@triton.jit
def store_gradient(
    out, out_n, length, share, least, each, rest, FIRST: tl.constexpr,
    ACC_DTYPE: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Store the gradient of ``length`` elements, a few 16-byte packs at a time. FIRST: the first pack's number."""
    if share.dtype != tl.int32:
        shares.store_packs(
            out, out_n, length, tl.where(share.to(ACC_DTYPE) == least, each, rest), THREADS, PACKS, VECTOR
        )
    elif (1 if out.dtype.element_ty == tl.float16 else 2) < PACKS:
        one, two = shares.split_packs_in_two(share, THREADS, PACKS, VECTOR // 2)
        store_gradient(out, out_n, length, one, least, each, rest, FIRST, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
        first: tl.constexpr = FIRST + PACKS // 2
        store_gradient(out, out_n, length, two, least, each, rest, first, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        low, high = halves.unpack_halves(share, out.dtype.element_ty)
        low, high = tl.where(low == least, each, rest), tl.where(high == least, each, rest)
        shares.store_halves(out, length // 8 * 8, low, high, FIRST, THREADS, PACKS, VECTOR)


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_kernel(
    x, y, grad, out, counts, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_inner, grad_outer, grad_inner, parts, span, blocks,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, PACKED: tl.constexpr, PHASE: tl.constexpr, VECTOR: tl.constexpr,
    THREADS: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute one part of each row's gradient. A thread holds HELD 16-byte packs of it, and reads all others twice."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    part, groups, begin, end, kept = shares.locate_part_and_held_columns(parts, span, blocks, THREADS, BLOCK, VECTOR)
    lanes = tl.arange(0, PARTS)  # one per thread, so that no thread waits for another's word
    there = lanes < parts
    mine = exchange.alternate_word_set(arrivals, PHASE)
    for i in range(tl.program_id(0) // parts, rows, groups):
        row = tl.cast(i, tl.int64)
        x_body = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_body = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1)).to(ACC_DTYPE)
        inside, edge, known = shares.locate_part_body_and_edges(x_body, n, part, EDGES, THREADS)
        edges = tl.load(x + x_body + edge, known, other=float("nan")) if EDGES else edge
        out_edges = out + out_body + edge
        x_body = align(x_body, EDGES)
        out_body = align(out_body, EDGES)
        inside = tl.minimum(inside, end)
        length = shares.count_columns_left(inside, kept, HELD * THREADS * VECTOR)
        words = counts + (mine * rows + row) * parts
        thread_counts = tl.zeros([THREADS], tl.int32)
        if PHASE != WRITE and BLOCK > 0:
            for k in range(blocks):
                start = begin + tl.cast(k, tl.int64) * (BLOCK * THREADS * VECTOR)
                left = shares.count_columns_left(inside, start, BLOCK * THREADS * VECTOR)
                at = x_body + start * x_n
                block = load_packs(x, at, x_n, left, float("nan"), NOTHING_TWICE, THREADS, BLOCK, VECTOR, PACKED)
                thread_counts += count_equal(block, least, DTYPE, ACC_DTYPE, THREADS, BLOCK, VECTOR)
        at = x_body + kept * x_n
        held = load_packs(x, at, x_n, length, float("nan"), NOTHING_TWICE, THREADS, HELD, VECTOR, PACKED)
        if PHASE != WRITE:
            thread_counts += count_equal(held, least, DTYPE, ACC_DTYPE, THREADS, HELD, VECTOR)
            if EDGES:
                thread_counts += (edges.to(ACC_DTYPE) == least).to(tl.int32)
            count = tl.sum(thread_counts.to(tl.int64), 0)
            exchange.publish_word(words, part, (1 - 2 * mine) * rows * parts, count, PHASE)
        if PHASE != LEAVE:
            slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1)).to(ACC_DTYPE)
            count = tl.sum(exchange.wait_for_word(words + lanes, there, PHASE), 0)
            each, rest = split_gradient(slope, count, DTYPE)
            if PACKED:
                held = halves.delay_unpacking(held, count, parts < 0)
            here = out + out_body + kept * out_n
            store_gradient(here, out_n, length, held, least, each, rest, 0, ACC_DTYPE, THREADS, HELD, VECTOR)
            if EDGES:
                tl.store(out_edges, tl.where(edges.to(ACC_DTYPE) == least, each, rest), known)
            if BLOCK:
                for k in range(blocks):
                    # Backwards: what was read last is likely still in L2.
                    start = begin + tl.cast(blocks - 1 - k, tl.int64) * (BLOCK * THREADS * VECTOR)
                    left = shares.count_columns_left(inside, start, BLOCK * THREADS * VECTOR)
                    at = x_body + start * x_n
                    block = load_packs(x, at, x_n, left, float("nan"), NOTHING_TWICE, THREADS, BLOCK, VECTOR, PACKED)
                    here = out + out_body + start * out_n
                    store_gradient(here, out_n, left, block, least, each, rest, 0, ACC_DTYPE, THREADS, BLOCK, VECTOR)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")


@register("triton", "min_backward", "split")
def split(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row, and keep it on chip while they exchange counts of minima: one launch."""
    return split_launch("triton/min_backward/split", split_kernel, columns_kernel, (x, y, grad, out), 1)
