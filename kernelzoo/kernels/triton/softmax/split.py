"""Softmax of rows that programs share. On NVIDIA GPUs, they exchange (maximum, sum) pairs in a co-operative launch. On
AMD GPUs and in the interpreter, programs can't wait for each other: one launch stores pairs, another writes."""

from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared import exchange, halves
from kernelzoo.kernels.shared.device_functions import exponential, split_coarse_fine
from kernelzoo.kernels.shared.exchange import EXCHANGE, LEAVE, WRITE
from kernelzoo.kernels.shared.jit import can_pack, device_of, edge_vector_size, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.triton import shares
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, row_start
from kernelzoo.kernels.triton.softmax.parts import Knobs, PartPlan, cut_rows, launch_in_parts
from kernelzoo.kernels.triton.softmax.split_columns import launch_columns
from kernelzoo.launch import Launch
from kernelzoo.layout import MANY, Rows, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def load_logits(
    x, start, x_n, length, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr, PACKED: tl.constexpr
):
    """Load a share by ``load_packs``, padded with -inf."""
    empty = halves.padding_word(x.dtype.element_ty)
    return shares.load_packs(x, start, x_n, length, float("-inf"), empty, THREADS, PACKS, VECTOR, PACKED)


@triton.jit
def sum_word_exponentials(
    words, top, DTYPE: tl.constexpr, EXACT: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr,
    VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each thread's sum of exp(x - top). To save registers, two 16-byte packs are unpacked at a time."""
    if PACKS > 2:
        one, two = shares.split_packs_in_two(words, THREADS, PACKS, VECTOR)
        result = sum_word_exponentials(one, top, DTYPE, EXACT, THREADS, PACKS // 2, VECTOR)
        result += sum_word_exponentials(two, top, DTYPE, EXACT, THREADS, PACKS // 2, VECTOR)
    else:
        low, high = halves.unpack_halves(words, DTYPE)
        below = top[:, None, None]
        if EXACT:
            low, fine_low = split_coarse_fine(exponential(low - below))
            high, fine_high = split_coarse_fine(exponential(high - below))
            result = tl.sum(tl.sum(low + high, 2), 1).to(tl.float64)
            result += tl.sum(tl.sum(fine_low + fine_high, 2), 1).to(tl.float64)
        else:
            result = tl.sum(tl.sum(exponential(low - below) + exponential(high - below), 2), 1)
    return result


@triton.jit
def store_number_pairs(
    out, length, words, top, inverse, FIRST: tl.constexpr,
    DTYPE: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Store exp(x - top) * inverse, from 16-byte pack FIRST on. Two packs of words are unpacked at a time."""
    if PACKS > 2:
        one, two = shares.split_packs_in_two(words, THREADS, PACKS, VECTOR // 2)
        store_number_pairs(out, length, one, top, inverse, FIRST, DTYPE, THREADS, PACKS // 2, VECTOR)
        store_number_pairs(out, length, two, top, inverse, FIRST + PACKS // 2, DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        low, high = halves.unpack_halves(words, DTYPE)
        low = (exponential(low - top) * inverse).to(DTYPE)
        high = (exponential(high - top) * inverse).to(DTYPE)
        shares.store_halves(out, length, low, high, FIRST, THREADS, PACKS, VECTOR)


@triton.jit
def store_share(
    out, out_n, length, share, top, inverse, DTYPE: tl.constexpr, ACC_DTYPE: tl.constexpr,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Store exp(x - top) * inverse for a share: words of two half-precision numbers, or plain numbers."""
    if share.dtype == tl.int32:
        store_number_pairs(out, length // 8 * 8, share, top, inverse, 0, DTYPE, THREADS, PACKS, VECTOR)
    else:
        shares.store_packs(out, out_n, length, exponential(share.to(ACC_DTYPE) - top) * inverse, THREADS, PACKS, VECTOR)


@triton.jit
def update_thread_maxima(top, share, never, DTYPE: tl.constexpr, PAIR_MAXIMA: tl.constexpr):
    """Return (each thread's maximum of ``top`` and the share's numbers, the share). Words pack two numbers.
    PAIR_MAXIMA: the device can take the maxima of both halves of two words at once. never: false, unknown to the
    compiler."""
    if PAIR_MAXIMA:
        if tl.bfloat16 == DTYPE:
            largest = tl.reduce(tl.reduce(share, 2, halves.larger_bfloat16), 1, halves.larger_bfloat16)
        else:
            largest = tl.reduce(tl.reduce(share, 2, halves.larger_float16), 1, halves.larger_float16)
        low, high = halves.unpack_halves(largest, DTYPE)
        new = tl.maximum(top, tl.maximum(low, high))
    else:
        low, high = halves.unpack_halves(share, DTYPE)
        new = tl.maximum(top, tl.max(tl.max(tl.maximum(low, high), 2), 1))
        share = halves.delay_unpacking(share, new[:, None, None], never)
    return new, share


@triton.jit
def online_update(
    top, total, share, never, DTYPE: tl.constexpr, ACC_DTYPE: tl.constexpr, PAIRS: tl.constexpr,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Return each thread's maximum and sum after one more share, and the share to keep in registers. Words of two
    packed numbers are kept unchanged, single numbers as exp(x - the thread's maximum)."""
    if share.dtype == tl.int32:
        new, share = update_thread_maxima(top, share, never, DTYPE, PAIRS)
        terms = sum_word_exponentials(share, new, DTYPE, False, THREADS, PACKS, VECTOR // 2)
    else:
        share = share.to(ACC_DTYPE)
        new = tl.maximum(top, tl.max(tl.max(share, 2), 1))
        share = exponential(share - new[:, None, None])
        terms = tl.sum(tl.sum(share, 2), 1)
    return new, total * exponential(top - new) + terms, share


@triton.jit
def part_max_and_sum(
    x, x_body, x_n, inside, begin, kept, blocks, edges, never,
    ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, PACKED: tl.constexpr, PAIRS: tl.constexpr,
    EXACT: tl.constexpr, VECTOR: tl.constexpr, THREADS: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return (each thread's maximum, the share in registers, the part's maximum, its sum) for one part of a row. EXACT:
    the part's maximum is found first. Then exp(x - max) is split into terms that add up without rounding. So the bits
    of the sum don't depend on alignment."""
    DTYPE: tl.constexpr = x.dtype.element_ty
    top = tl.full([THREADS], LOWEST, ACC_DTYPE)  # finite: see online_state
    total = tl.zeros_like(top)
    if BLOCK:
        for k in range(blocks):
            start = begin + tl.cast(k, tl.int64) * (BLOCK * THREADS * VECTOR)
            left = shares.count_columns_left(inside, start, BLOCK * THREADS * VECTOR)
            block = load_logits(x, x_body + start * x_n, x_n, left, THREADS, BLOCK, VECTOR, PACKED)
            top, total, _ = online_update(top, total, block, never, DTYPE, ACC_DTYPE, PAIRS, THREADS, BLOCK, VECTOR)
    length = shares.count_columns_left(inside, kept, HELD * THREADS * VECTOR)
    held = load_logits(x, x_body + kept * x_n, x_n, length, THREADS, HELD, VECTOR, PACKED)
    if EXACT:
        top, held = update_thread_maxima(tl.maximum(edges.to(ACC_DTYPE), top), held, never, DTYPE, PAIRS)
        part_top = tl.max(top, 0)
        coarse, fine = split_coarse_fine(exponential(edges.to(ACC_DTYPE) - part_top))
        terms = sum_word_exponentials(held, part_top + tl.zeros_like(top), DTYPE, True, THREADS, HELD, VECTOR // 2)
        part_total = tl.sum(terms + coarse.to(tl.float64) + fine.to(tl.float64), 0).to(ACC_DTYPE)
    else:
        top, total, held = online_update(top, total, held, never, DTYPE, ACC_DTYPE, PAIRS, THREADS, HELD, VECTOR)
        all_top, all_total = top, total
        if EDGES:
            all_top = tl.maximum(top, edges.to(ACC_DTYPE))
            all_total = total * exponential(top - all_top) + exponential(edges.to(ACC_DTYPE) - all_top)
        part_top = tl.max(all_top, 0)
        part_total = tl.sum(all_total * exponential(all_top - part_top), 0)
    return top, held, part_top, part_total


@triton.jit
def write_part(
    x, x_body, x_n, out, out_body, out_n, inside, begin, kept, blocks, held, top, row_top, inverse, never,
    EXPONENTIALS: tl.constexpr, ACC_DTYPE: tl.constexpr, PACKED: tl.constexpr,
    VECTOR: tl.constexpr, THREADS: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write a program's part of a row, except its edges. EXPONENTIALS: held is exp(x - the thread's top), not x."""
    DTYPE: tl.constexpr = out.dtype.element_ty
    here = out + out_body + kept * out_n
    length = shares.count_columns_left(inside, kept, HELD * THREADS * VECTOR)
    if EXPONENTIALS:
        factor = exponential(top - row_top) * inverse
        shares.store_packs(here, out_n, length, held * factor[:, None, None], THREADS, HELD, VECTOR)
    else:
        if PACKED:
            held = halves.delay_unpacking(held, inverse, never)
        store_share(here, out_n, length, held, row_top, inverse, DTYPE, ACC_DTYPE, THREADS, HELD, VECTOR)
    if BLOCK:
        for k in range(blocks):
            # Backwards: what was read last is likely still in L2.
            start = begin + tl.cast(blocks - 1 - k, tl.int64) * (BLOCK * THREADS * VECTOR)
            left = shares.count_columns_left(inside, start, BLOCK * THREADS * VECTOR)
            block = load_logits(x, x_body + start * x_n, x_n, left, THREADS, BLOCK, VECTOR, PACKED)
            out_block = out + out_body + start * out_n
            store_share(out_block, out_n, left, block, row_top, inverse, DTYPE, ACC_DTYPE, THREADS, BLOCK, VECTOR)


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_kernel(
    x, out, pairs, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    parts, span, blocks, ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, PACKED: tl.constexpr,
    PAIRS: tl.constexpr, EXACT: tl.constexpr, PHASE: tl.constexpr, VECTOR: tl.constexpr, THREADS: tl.constexpr,
    HELD: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute softmax of one part of each row. A thread holds HELD 16-byte packs of it, and reads all others twice.

    EXACT: parts begin at the same columns of every row, have unaligned ends of their own, and fit in registers. PHASE:
    see ``shared.exchange``.
    """
    await_last_launch()
    WORDS: tl.constexpr = 2 if tl.float64 == ACC_DTYPE else 1  # of 64 bits per pair
    n = tl.cast(n, tl.int64) * MULTIPLE
    never = parts < 0
    part, groups, begin, end, kept = shares.locate_part_and_held_columns(parts, span, blocks, THREADS, BLOCK, VECTOR)
    cut = begin if EXACT else 0
    kept -= cut
    lanes = tl.arange(0, PARTS)  # one per thread, so that no thread waits for another's word
    there = lanes < parts
    mine = exchange.alternate_word_set(arrivals, PHASE)
    for i in range(tl.program_id(0) // parts, rows, groups):
        row = tl.cast(i, tl.int64)
        x_body = row_start(row, inner, x_outer, x_inner, MULTIPLE) + cut
        out_body = row_start(row, inner, out_outer, out_inner, MULTIPLE) + cut
        own = tl.minimum(n, end) - cut if EXACT else n
        inside, edge, known = shares.locate_part_body_and_edges(x_body, own, 0 if EXACT else part, EDGES, THREADS)
        edges = tl.load(x + x_body + edge, known, other=float("-inf")) if EDGES else edge
        out_edges = out + out_body + edge
        x_body = align(x_body, EDGES)
        out_body = align(out_body, EDGES)
        inside = tl.minimum(inside, end)
        words = pairs + (mine * rows + row) * (WORDS * parts)
        next = (1 - 2 * mine) * rows * (WORDS * parts)
        if PHASE == WRITE:
            top = LOWEST
            length = shares.count_columns_left(inside, kept, HELD * THREADS * VECTOR)
            held = load_logits(x, x_body + kept * x_n, x_n, length, THREADS, HELD, VECTOR, PACKED)
        else:
            top, held, part_top, part_total = part_max_and_sum(
                x, x_body, x_n, inside, begin, kept, blocks, edges, never,
                ACC_DTYPE, LOWEST, EDGES, PACKED, PAIRS, EXACT, VECTOR, THREADS, HELD, BLOCK,
            )  # fmt: skip
            if WORDS == 2:
                exchange.publish_word(words, part, next, part_top.to(tl.int64, bitcast=True), PHASE)
                exchange.publish_word(words + parts, part, next, exchange.pack_number(part_total), PHASE)
            else:
                exchange.publish_word(words, part, next, exchange.pack_pair(part_top, part_total), PHASE)
        if PHASE != LEAVE:
            found = exchange.wait_for_word(words + lanes, there, PHASE)
            if WORDS == 2:
                tops = found.to(tl.float64, bitcast=True)
                totals = exchange.wait_for_word(words + parts + lanes, there, PHASE).to(tl.float64, bitcast=True)
            else:
                tops, totals = exchange.unpack_pair(found)
            # Every program merges all pairs of its rows in the same order, so all get the same bits.
            tops = tl.where(there, tops, LOWEST)
            row_top = tl.max(tops, 0)
            inverse = 1.0 / tl.sum(tl.where(there, totals * exponential(tops - row_top), 0.0), 0)
            write_part(
                x, x_body, x_n, out, out_body, out_n, inside, begin, kept, blocks, held, top, row_top, inverse, never,
                PHASE == EXCHANGE and not PACKED, ACC_DTYPE, PACKED, VECTOR, THREADS, HELD, BLOCK,
            )  # fmt: skip
            if EDGES:
                tl.store(
                    out_edges, (exponential(edges.to(ACC_DTYPE) - row_top) * inverse).to(out.dtype.element_ty), known
                )
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")


def split_plan(
    x: torch.Tensor, out: torch.Tensor, rows: Rows, implementation: str, exact: bool = False
) -> tuple[PartPlan, tuple[Any, ...]]:
    """Return (the plan by which programs share rows, the kernel's arguments before EXACT).

    Raises UnsupportedProblemError for columns, because the elements of a pack must be adjacent in memory.
    """
    device = device_of(x)
    if rows.is_strided:
        raise UnsupportedProblemError(implementation, "neighbours of a row must be nearest in memory, not its next row")
    edges, wide = edge_vector_size(rows), wide_dtype(x.dtype)
    inside = rows.n // edges * edges if edges else rows.n
    # If there are few halves, they are kept as numbers, so that exponentials are computed once.
    most = of(Knobs, device.index).wide_elements * device.multiprocessors
    words = exact or (can_pack(rows) and rows.planned * inside > most)
    plan = cut_rows(rows, 0 if exact else edges, words, device)
    pairs = x.new_full((2, rows.total, wide.itemsize // 4, plan.parts), -1, dtype=torch.int64)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min, edges, words, words and device.capability >= 80)
    return plan, (x, out, pairs, arrivals, *row_arguments(rows), *plan.place, *kinds)


@register("triton", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row, and keep it on chip while they exchange (max, sum) states: one launch."""
    id, rows = "triton/softmax/split", rows_of(x, out)
    if rows.as_columns is not None:
        return launch_columns(x, out, rows.as_columns)
    exact = rows.single and can_pack(rows.with_vector_loads)
    plan, args = split_plan(x, out, replace(rows.with_vector_loads, planned=MANY) if exact else rows, id, exact)
    if exact and plan.place[2]:  # it has blocks, but EXACT needs all data in registers
        exact = False
        plan, args = split_plan(x, out, rows, id)
    return launch_in_parts(id, x, split_kernel, plan, (*args, exact))
