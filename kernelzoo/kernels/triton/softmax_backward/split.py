"""Softmax's gradient of rows that programs share. On NVIDIA GPUs, they exchange sums in a co-operative launch. On AMD
GPUs and in the interpreter, programs can't wait for each other: one launch stores sums, another writes."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared import exchange, halves
from kernelzoo.kernels.shared.exchange import EXCHANGE, LEAVE, WRITE
from kernelzoo.kernels.triton import shares
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, row_start
from kernelzoo.kernels.triton.gradients import split_launch
from kernelzoo.kernels.triton.shares import load_packs
from kernelzoo.kernels.triton.softmax_backward.columns_kernel import columns_kernel
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def product_sums(
    grad, y, DTYPE: tl.constexpr, ACC_DTYPE: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr,
    VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each thread's sum of grad * y. To save registers, two 16-byte packs of words are unpacked at a time."""
    if grad.dtype != tl.int32:
        result = tl.sum(tl.sum(grad.to(ACC_DTYPE) * y.to(ACC_DTYPE), 2), 1)
    elif PACKS > 2:
        grad_one, grad_two = shares.split_packs_in_two(grad, THREADS, PACKS, VECTOR // 2)
        y_one, y_two = shares.split_packs_in_two(y, THREADS, PACKS, VECTOR // 2)
        result = product_sums(grad_one, y_one, DTYPE, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
        result += product_sums(grad_two, y_two, DTYPE, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        grad_low, grad_high = halves.unpack_halves(grad, DTYPE)
        y_low, y_high = halves.unpack_halves(y, DTYPE)
        result = tl.sum(tl.sum(grad_low * y_low + grad_high * y_high, 2), 1)
    return result


@triton.jit
def store_gradient(
    out, out_n, length, grad, y, total, FIRST: tl.constexpr,
    ACC_DTYPE: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Store the gradient of ``length`` elements, two 16-byte packs at a time. FIRST: the first pack's number."""
    if grad.dtype != tl.int32:
        shares.store_packs(out, out_n, length, y.to(ACC_DTYPE) * (grad.to(ACC_DTYPE) - total), THREADS, PACKS, VECTOR)
    elif PACKS > 2:
        grad_one, grad_two = shares.split_packs_in_two(grad, THREADS, PACKS, VECTOR // 2)
        y_one, y_two = shares.split_packs_in_two(y, THREADS, PACKS, VECTOR // 2)
        store_gradient(out, out_n, length, grad_one, y_one, total, FIRST, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
        rest: tl.constexpr = FIRST + PACKS // 2
        store_gradient(out, out_n, length, grad_two, y_two, total, rest, ACC_DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        grad_low, grad_high = halves.unpack_halves(grad, out.dtype.element_ty)
        y_low, y_high = halves.unpack_halves(y, out.dtype.element_ty)
        low, high = y_low * (grad_low - total), y_high * (grad_high - total)
        shares.store_halves(out, length // 8 * 8, low, high, FIRST, THREADS, PACKS, VECTOR)


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_kernel(
    grad, y, out, sums, arrivals, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner, parts, span, blocks,
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
        grad_body = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
        y_body = row_start(row, inner, y_outer, y_inner, MULTIPLE)
        out_body = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        inside, edge, known = shares.locate_part_body_and_edges(grad_body, n, part, EDGES, THREADS)
        if EDGES:
            grad_edges = tl.load(grad + grad_body + edge, known, other=0)
            y_edges = tl.load(y + y_body + edge, known, other=0)
            out_edges = out + out_body + edge
        grad_body = align(grad_body, EDGES)
        y_body = align(y_body, EDGES)
        out_body = align(out_body, EDGES)
        inside = tl.minimum(inside, end)
        length = shares.count_columns_left(inside, kept, HELD * THREADS * VECTOR)
        words = sums + (mine * rows + row) * parts
        thread_sums = tl.zeros([THREADS], ACC_DTYPE)
        if PHASE != WRITE and BLOCK > 0:
            for k in range(blocks):
                start = begin + tl.cast(k, tl.int64) * (BLOCK * THREADS * VECTOR)
                left = shares.count_columns_left(inside, start, BLOCK * THREADS * VECTOR)
                one = load_packs(grad, grad_body + start * grad_n, grad_n, left, 0, 0, THREADS, BLOCK, VECTOR, PACKED)
                two = load_packs(y, y_body + start * y_n, y_n, left, 0, 0, THREADS, BLOCK, VECTOR, PACKED)
                thread_sums += product_sums(one, two, DTYPE, ACC_DTYPE, THREADS, BLOCK, VECTOR)
        held = load_packs(grad, grad_body + kept * grad_n, grad_n, length, 0, 0, THREADS, HELD, VECTOR, PACKED)
        weights = load_packs(y, y_body + kept * y_n, y_n, length, 0, 0, THREADS, HELD, VECTOR, PACKED)
        if PHASE != WRITE:
            thread_sums += product_sums(held, weights, DTYPE, ACC_DTYPE, THREADS, HELD, VECTOR)
            if EDGES:
                thread_sums += grad_edges.to(ACC_DTYPE) * y_edges.to(ACC_DTYPE)
            word = exchange.pack_number(tl.sum(thread_sums, 0))
            exchange.publish_word(words, part, (1 - 2 * mine) * rows * parts, word, PHASE)
        if PHASE != LEAVE:
            found = exchange.wait_for_word(words + lanes, there, PHASE)
            # Every program adds up all sums of its rows in the same order, so all get the same bits.
            total = tl.sum(tl.where(there, exchange.unpack_number(found, ACC_DTYPE), 0.0), 0)
            if PACKED:
                held = halves.delay_unpacking(held, total, parts < 0)
                weights = halves.delay_unpacking(weights, total, parts < 0)
            store_gradient(
                out + out_body + kept * out_n, out_n, length, held, weights, total, 0, ACC_DTYPE, THREADS, HELD, VECTOR
            )
            if EDGES:
                tl.store(out_edges, (y_edges.to(ACC_DTYPE) * (grad_edges.to(ACC_DTYPE) - total)).to(DTYPE), known)
            if BLOCK:
                for k in range(blocks):
                    # Backwards: what was read last is likely still in L2.
                    start = begin + tl.cast(blocks - 1 - k, tl.int64) * (BLOCK * THREADS * VECTOR)
                    left = shares.count_columns_left(inside, start, BLOCK * THREADS * VECTOR)
                    at = grad_body + start * grad_n
                    one = load_packs(grad, at, grad_n, left, 0, 0, THREADS, BLOCK, VECTOR, PACKED)
                    two = load_packs(y, y_body + start * y_n, y_n, left, 0, 0, THREADS, BLOCK, VECTOR, PACKED)
                    here = out + out_body + start * out_n
                    store_gradient(here, out_n, left, one, two, total, 0, ACC_DTYPE, THREADS, BLOCK, VECTOR)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")


@register("triton", "softmax_backward", "split")
def split(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row, and keep it on chip while they exchange sums: one launch."""
    return split_launch("triton/softmax_backward/split", split_kernel, columns_kernel, (grad, y, out), 2)
