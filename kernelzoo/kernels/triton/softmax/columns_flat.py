"""Few columns without gaps, by blocks of their memory as one piece: two launches, and one between them that merges."""

import math

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, wide_dtype, wide_type
from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
from kernelzoo.kernels.triton.softmax.words import exponential
from kernelzoo.kernels.triton.words import await_last_launch
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import Columns, power_of_two, rows_of
from kernelzoo.registry import register

FLAT_BLOCKS, FLAT_THREADS, FLAT_PROGRAMS = (4096, 8192), 512, 2
"""Elements of a block of few columns, its threads, and how many such programs share an SM."""

MERGED_COLUMNS, MERGE_SIDE, MERGE_CHUNK = 16, 32, 64
"""Columns up to which each program that writes merges all pairs itself; of those that a program merges for all; and
pairs of each that it reads at once."""


@triton.jit
def lanes_with(top, total, block):
    """The running pair of each lane with one more element taken in."""
    rise = block - top
    scale = exponential(-tl.abs(rise))  # see online_kernel
    return tl.maximum(top, block), tl.where(rise > 0, total * scale + 1, total + scale)


@triton.jit
def merged_pairs(
    pairs, parts, column, WIDE: tl.constexpr, LOWEST: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """The pair of each of SIDE columns, of those that all parts have left. The same bits in every program."""
    tops = tl.full([CHUNK, SIDE], LOWEST, WIDE)
    totals = tl.zeros_like(tops)
    for first in range(0, parts, CHUNK):
        peer = first + tl.arange(0, CHUNK)[:, None]
        place = pairs + peer * (2 * COLUMNS) + column[None, :]
        new_tops = tl.load(place, peer < parts, other=LOWEST)
        new_totals = tl.load(place + COLUMNS, peer < parts, other=0.0)
        both = tl.maximum(tops, new_tops)
        totals = totals * exponential(tops - both) + new_totals * exponential(new_tops - both)
        tops = both
    top = tl.max(tops, 0)
    return top, tl.sum(totals * exponential(tops - top[None, :]), 0)


@triton.jit(do_not_specialize=["parts"])
def merge_columns_kernel(
    x, out, pairs, merged, parts, WIDE: tl.constexpr, LOWEST: tl.constexpr, COLUMNS: tl.constexpr,
    SIDE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The launch between the other two: SIDE columns to a program."""
    await_last_launch()
    column = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    top, total = merged_pairs(pairs, parts, column, WIDE, LOWEST, COLUMNS, SIDE, CHUNK)
    tl.store(merged + column, top)
    tl.store(merged + COLUMNS + column, total)


@triton.jit(do_not_specialize=["parts", "blocks", "known_parts"])
def flat_columns_kernel(
    x, out, pairs, length, inner, period, parts, blocks, known_parts, VECTOR: tl.constexpr,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, PHASE: tl.constexpr,
    BLOCK: tl.constexpr, FOLDS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """A launch that leaves pairs, or one that reads them and writes: few columns without gaps, as one piece of memory.

    A block of it is whole vectors and whole rows of the columns, so that a lane always meets the same column.
    """
    await_last_launch()
    part = tl.program_id(0)
    here = tl.arange(0, BLOCK)
    column = tl.arange(0, COLUMNS)
    period = period * VECTOR
    rest = tl.cast(blocks, tl.int64) * period  # where the last block begins, which isn't whole: the last program's
    left = tl.where(part == parts - 1, length - rest, 0).to(tl.int32)
    if PHASE == LEAVE:
        top = tl.full([BLOCK], LOWEST, WIDE)  # finite: see online_kernel
        total = tl.zeros_like(top)
        for i in tl.range(part, blocks, parts, num_stages=AHEAD):
            block = tl.load(x + tl.cast(i, tl.int64) * period + here, here < period, other=float("-inf"))
            top, total = lanes_with(top, total, block.to(WIDE))
        top, total = lanes_with(top, total, tl.load(x + rest + here, here < left, other=float("-inf")).to(WIDE))
        at = tl.arange(0, FOLDS * COLUMNS)
        lane = at // COLUMNS * inner + at % COLUMNS
        known = (lane < period) & (at % COLUMNS < inner)
        lane = tl.minimum(lane, BLOCK - 1)
        tops = tl.reshape(tl.where(known, tl.gather(top, lane, 0), LOWEST), [FOLDS, COLUMNS])
        totals = tl.reshape(tl.where(known, tl.gather(total, lane, 0), 0.0), [FOLDS, COLUMNS])
        column_top = tl.max(tops, 0)
        column_total = tl.sum(totals * exponential(tops - column_top[None, :]), 0)
        place = pairs + part * (2 * COLUMNS) + column
        tl.store(place, column_top)
        tl.store(place + COLUMNS, column_total)
    else:
        column_top, column_total = merged_pairs(pairs, known_parts, column, WIDE, LOWEST, COLUMNS, COLUMNS, CHUNK)
        inverse = 1.0 / column_total
        top = tl.gather(column_top, here % inner, 0)
        factor = tl.gather(inverse, here % inner, 0)
        last = tl.load(x + rest + here, here < left, other=float("-inf")).to(WIDE)
        tl.store(out + rest + here, (exponential(last - top) * factor).to(out.dtype.element_ty), here < left)
        for i in tl.range(part, blocks, parts, num_stages=AHEAD):
            # Backwards: what was read last is likeliest to be in L2 still.
            start = tl.cast(blocks - 1 - i, tl.int64) * period
            block = tl.load(x + start + here, here < period, other=float("-inf"))
            result = (exponential(block.to(WIDE) - top) * factor).to(out.dtype.element_ty)
            tl.store(out + start + here, result, here < period)


def period_of(columns: Columns) -> int:
    """Elements of a block: whole rows of the columns and whole vectors; 0 if no block can hold them, or there are
    gaps."""
    if not columns.one_piece or columns.itemsize == 8:
        return 0
    least = math.lcm(columns.inner, 16 // columns.itemsize)
    return next((block // least * least for block in FLAT_BLOCKS if least <= block), 0)


@register("triton", "softmax", "columns_flat")
def columns_flat(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Few columns without gaps, by blocks of their memory: launches that leave pairs, merge them, and write."""
    columns = rows_of(x, out).columns
    period = period_of(columns) if columns is not None else 0
    if columns is None or not period:
        words = (
            f"it takes columns without gaps, of which a block of {FLAT_BLOCKS[-1]} elements holds whole rows, but no "
            "float64"
        )
        raise UnsupportedProblemError("triton/softmax/columns_flat", words)
    return by_blocks(x, out, columns, period)


def by_blocks(x: torch.Tensor, out: torch.Tensor, columns: Columns, period: int) -> Launch:
    """The launches over blocks of so many elements."""
    device = device_of(x)
    wide, vector = wide_dtype(x.dtype), 16 // columns.itemsize
    width = power_of_two(columns.inner)
    block = power_of_two(period)
    blocks = columns.n * columns.inner // period
    parts = min(max(1, blocks), FLAT_PROGRAMS * device.multiprocessors)
    merges = columns.inner > MERGED_COLUMNS and parts > 1
    pairs = x.new_empty((parts + merges, 2, width), dtype=wide)
    place = (columns.n * columns.inner, columns.inner, period // vector, parts, blocks)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min)
    sizes = (block, power_of_two(period // columns.inner), width, max(1, block // width))
    warps = device.warps(FLAT_THREADS)
    merged = pairs[parts:] if merges else pairs

    def part(phase: object, ahead: int) -> Launch:
        known, count = (merged, 1 if merges else parts) if phase is WRITE else (pairs, parts)
        args = (x, out, known, *place, count, vector, *kinds, phase, *sizes, ahead)
        return bound("triton/softmax/columns_flat", x, flat_columns_kernel, parts, args, warps)

    def merge() -> Launch | None:
        if not merges:
            return None
        side = min(width, MERGE_SIDE)
        args = (x, out, pairs, merged, parts, *kinds, width, side, MERGE_CHUNK)
        return bound("triton/softmax/columns_flat", x, merge_columns_kernel, width // side, args, device.warps(256))

    # Blocks read ahead into shared memory help the launch that only reads, and both if they are of half precision.
    halves = columns.itemsize == 2
    return sequence(part(LEAVE, 4 if halves else 3), merge(), part(WRITE, 4 if halves else 1))
