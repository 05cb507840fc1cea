from typing import Any

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared import exchange, halves
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.exchange import EXCHANGE, LEAVE, WRITE
from kernelzoo.kernels.shared.jit import bind_grid, column_arguments, device_of, wide_dtype, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch
from kernelzoo.kernels.triton.softmax.strips import Strips, count_strip_parts, plan_strips
from kernelzoo.launch import Launch
from kernelzoo.layout import Columns, cdiv, next_power_of_two, rows_of
from kernelzoo.registry import register


@triton.jit
def interleave(low, high, COLUMNS: tl.constexpr):
    """Interleave the values of the low and high halves of words: return one value per column."""
    return tl.reshape(tl.join(low, high), [low.shape[0], COLUMNS])


@triton.jit
def deinterleave(columns, COLUMNS: tl.constexpr):
    """Undo ``interleave``: return the values of low and of high halves."""
    return tl.split(tl.reshape(columns, [columns.shape[0], COLUMNS // 2, 2]))


@triton.jit(do_not_specialize=["parts", "span"])
def columns_kernel(
    x, out, pairs, arrivals, outer, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, PACKED: tl.constexpr,
    PAIRS: tl.constexpr, PHASE: tl.constexpr, WIDE_OFFSETS: tl.constexpr, EVEN: tl.constexpr, FOUR: tl.constexpr,
    ELEMENTS: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute softmax of columns in strips of COLUMNS. A program keeps ``span`` elements of each column in registers.

    PACKED: a word has elements of two half-precision columns. PHASE: see ``shared.exchange``.
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
    length = tl.maximum(tl.minimum(n - begin, span), 0).to(tl.int32)
    peer = tl.arange(0, PARTS)[:, None]
    mine = exchange.alternate_word_set(arrivals, PHASE)
    for i in range((program // parts).to(tl.int64), tiles, groups):
        tile = tl.cast(i, tl.int64)
        # Always 0, but the compiler can't know. It would otherwise keep values that all tiles share in registers.
        nothing = tile >> 62
        nothing = nothing if WIDE_OFFSETS else nothing.to(tl.int32)
        first = tile % strips * COLUMNS
        there = first + lane < inner
        x_step = (x_n + nothing) * MULTIPLE
        x_start = x + tile // strips * x_outer * MULTIPLE + begin * x_step
        in_rows = depth < length + nothing
        if PACKED:
            word = tl.arange(0, COLUMNS // 2)[None, :]
            x_start = (x_start + first).to(tl.pointer_type(tl.int32), bitcast=True) + word
            here = x_start + depth * ((x_n + nothing) * (MULTIPLE // 2))
            known = in_rows & (first + 2 * word < inner)
            held = tl.load(here) if EVEN else tl.load(here, known, halves.padding_word(DTYPE))
        else:
            here = x_start + (first + lane) * x_inner + depth * x_step
            held = tl.load(here) if EVEN else tl.load(here, in_rows & there, float("-inf"))
            held = held.to(ACC_DTYPE)
        if PHASE != WRITE or PARTS == 1:
            # Maxima are finite: see online_state.
            if PACKED:
                if PAIRS:
                    if tl.bfloat16 == DTYPE:
                        largest = tl.reduce(held, 0, halves.larger_bfloat16, keep_dims=True)
                    else:
                        largest = tl.reduce(held, 0, halves.larger_float16, keep_dims=True)
                    low_top, high_top = halves.unpack_halves(largest, DTYPE)
                else:
                    low, high = halves.unpack_halves(held, DTYPE)
                    low_top, high_top = tl.max(low, 0, keep_dims=True), tl.max(high, 0, keep_dims=True)
                low_top, high_top = tl.maximum(low_top, LOWEST), tl.maximum(high_top, LOWEST)
                low, high = halves.unpack_halves(held, DTYPE)
                low_total = tl.sum(exponential(low - low_top), 0, keep_dims=True)
                high_total = tl.sum(exponential(high - high_top), 0, keep_dims=True)
                top = interleave(low_top, high_top, COLUMNS)
                total = interleave(low_total, high_total, COLUMNS)
            else:
                top = tl.maximum(tl.max(held, 0, keep_dims=True), LOWEST)
                held = exponential(held - top)
                total = tl.sum(held, 0, keep_dims=True)
        if PARTS == 1:
            all_top = top
            inverse = 1.0 / total
            factor = inverse
        else:
            words = pairs + (mine * tiles + tile) * (COLUMNS * parts) + lane
            if PHASE != WRITE:
                next = (1 - 2 * mine) * tiles * (COLUMNS * parts)
                exchange.publish_word(words, part * COLUMNS, next, exchange.pack_pair(top, total), PHASE, there)
            if PHASE != LEAVE:
                known = (peer < parts) & there
                found = exchange.wait_for_words(words + peer * COLUMNS, known, parts, PHASE, FOUR)
                tops, totals = exchange.unpack_pair(found)
                # Every program merges all pairs of its columns in the same order, so all get the same bits.
                tops = tl.where(known, tops, LOWEST)
                all_top = tl.max(tops, 0, keep_dims=True)
                terms = tl.where(known, totals * exponential(tops - all_top), 0.0)
                inverse = 1.0 / tl.sum(terms, 0, keep_dims=True)
                if not PACKED:
                    if PHASE == WRITE:
                        held = exponential(held - all_top)
                        factor = inverse
                    else:
                        factor = exponential(top - all_top) * inverse
        if PHASE != LEAVE:
            if PACKED:
                low_top, high_top = deinterleave(all_top, COLUMNS)
                low_inverse, high_inverse = deinterleave(inverse, COLUMNS)
                low, high = halves.unpack_halves(halves.delay_unpacking(held, low_inverse, parts < 0), DTYPE)
                low = (exponential(low - low_top) * low_inverse).to(DTYPE)
                result = interleave(low, (exponential(high - high_top) * high_inverse).to(DTYPE), COLUMNS)
            else:
                result = (held * factor).to(DTYPE)
                if MULTIPLE == 1:  # adds 0, so that the compiler doesn't keep each element's mask in registers
                    in_rows = depth < length + (factor < 0).to(tl.int32)
            out_step = (out_n + nothing) * MULTIPLE
            out_start = out + tile // strips * out_outer * MULTIPLE + begin * out_step
            here = out_start + (first + lane) * out_inner + depth * out_step
            if EVEN:
                tl.store(here, result)
            else:
                tl.store(here, result, in_rows & there)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")


def launch_strips(
    id: str, x: torch.Tensor, out: torch.Tensor, columns: Columns, strips: Strips, phase: object,
    *shared: torch.Tensor,
) -> Launch:  # fmt: skip
    """Return the launch over strips. shared: ((max, sum) pairs, arrivals) if several programs share a strip."""
    device = device_of(x)
    parts, groups = count_strip_parts(columns, strips, device), columns.strip_count(strips.columns)
    if parts > 1:
        groups = min(groups, strips.programs * device.multiprocessors // parts)
    lanes = next_power_of_two(parts)
    far = strips.elements * max(columns.x_n, columns.out_n) >= 2**31
    even = columns.n == strips.elements * parts and columns.inner % strips.columns == 0
    pairwise = strips.packed and device.capability >= 80
    # Programs of complete columns exchange nothing. Without workspaces, a launch can be moved to other tensors.
    place = (x, out, *(shared or (0, 0)), *column_arguments(columns), parts, cdiv(columns.n, parts))
    kinds = (wide_type(x.dtype), torch.finfo(wide_dtype(x.dtype)).min, strips.packed, pairwise, phase)
    four = lanes * strips.columns >= 4 * strips.threads
    args = (*place, *kinds, far, even, four, strips.elements, strips.columns, lanes)
    options: dict[str, Any] = {"maxnreg": strips.registers} if device.is_nvidia and strips.registers else {}
    if phase is EXCHANGE:
        options["launch_cooperative_grid"] = True
    return bind_grid(id, columns_kernel, groups * parts, args, device.warps(strips.threads), **options)


@register("triton", "softmax", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps a strip of whole columns in registers: one read, one write."""
    columns = rows_of(x, out).as_columns
    strips = plan_strips(columns, device_of(x)) if columns is not None else None
    if columns is None or strips is None or strips.elements < columns.n:
        words = (
            "it takes columns side by side, of at most 32 bits an element, of which whole strips fill programs of this "
            f"device; got {rows_of(x, out).n} elements to each of {rows_of(x, out).total}"
        )
        raise UnsupportedProblemError("triton/softmax/columns", words)
    return launch_strips("triton/softmax/columns", x, out, columns, strips, WRITE)
