"""Long columns that several programs share and read twice: tiles of rows side by side, in two launches."""

import math

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.split import split
from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
from kernelzoo.kernels.triton.softmax.parts import Numbers
from kernelzoo.kernels.triton.softmax.tiles import LINE_BYTES
from kernelzoo.kernels.triton.softmax.words import exponential
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import cdiv, power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of

ACROSS_ELEMENTS, ACROSS_THREADS, ACROSS_PROGRAMS = 8192, 256, 2
"""A tile across rows, its threads, and how many such programs share an SM."""

FEW_PARTS, MANY_PARTS = 32, 512
"""Programs to one tile of rows side by side: that always make sense, and at the most."""


@triton.jit
def load_tile(x, start, x_n, length, COLS: tl.constexpr):
    """The first length of COLS columns of rows from start."""
    cols = tl.arange(0, COLS)[None, :]
    return tl.load(x + start + cols.to(tl.int64) * x_n, cols < length, other=float("-inf"))


@triton.jit
def tile_left(in_rows, inside, start, COLS: tl.constexpr):
    """How many of COLS columns from start lie inside rows, as int32."""
    return tl.where(in_rows, tl.minimum(inside - start, COLS), 0).to(tl.int32)


@triton.jit
def store_tile(out, start, out_n, length, tile, top, inverse, WIDE: tl.constexpr, COLS: tl.constexpr):
    """Write a tile's exponentials below top, times inverse, to the first length of COLS columns of rows from start."""
    cols = tl.arange(0, COLS)[None, :]
    result = (exponential(tile.to(WIDE) - top) * inverse).to(out.dtype.element_ty)
    tl.store(out + start + cols.to(tl.int64) * out_n, result, cols < length)


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_across_kernel(
    x, out, pairs, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, blocks, WIDE: tl.constexpr, LOWEST: tl.constexpr, PHASE: tl.constexpr,
    MORE: tl.constexpr, VECTOR: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A launch that leaves pairs, or one that reads them and writes: rows side by side, in tiles of ROWS."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    part = program % parts
    groups = programs // parts
    lanes = tl.arange(0, PARTS)[None, :]
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    for i in range(program // parts, (rows - 1) // ROWS + 1, groups):  # rows + ROWS may be past 2^31
        row = tl.cast(i, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        in_rows = row < rows
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        inside = tl.minimum(n, end)
        length = tile_left(in_rows, inside, begin, COLS)
        held = load_tile(x, x_start + begin * x_n, x_n, length, COLS)
        tops = pairs + row * (2 * parts)
        totals = tops + parts
        there = in_rows & (lanes < parts)
        if PHASE == LEAVE:
            values = held.to(WIDE)
            top = tl.maximum(tl.max(values, 1, keep_dims=True), LOWEST)  # finite: see online_kernel
            total = tl.sum(exponential(values - top), 1, keep_dims=True)
            for k in range(1, blocks if MORE else 1):
                start = begin + k * COLS
                left = tile_left(in_rows, inside, start, COLS)
                values = load_tile(x, x_start + start * x_n, x_n, left, COLS).to(WIDE)
                new_top = tl.maximum(top, tl.max(values, 1, keep_dims=True))
                terms = tl.sum(exponential(values - new_top), 1, keep_dims=True)
                total = total * exponential(top - new_top) + terms
                top = new_top
            tl.store(tops + part, top, in_rows)
            tl.store(totals + part, total, in_rows)
        else:
            row_tops = tl.load(tops + lanes, there, other=LOWEST, volatile=True)
            row_totals = tl.load(totals + lanes, there, other=0.0, volatile=True)
            row_top = tl.max(row_tops, 1, keep_dims=True)
            inverse = 1.0 / tl.sum(row_totals * exponential(row_tops - row_top), 1, keep_dims=True)
            store_tile(out, out_start + begin * out_n, out_n, length, held, row_top, inverse, WIDE, COLS)
            for k in range(1, blocks if MORE else 1):
                # Backwards: what was read last is likeliest to be in L2 still.
                start = begin + (blocks - k) * COLS
                left = tile_left(in_rows, inside, start, COLS)
                tile = load_tile(x, x_start + start * x_n, x_n, left, COLS)
                store_tile(out, out_start + start * out_n, out_n, left, tile, row_top, inverse, WIDE, COLS)


def across_parts(knobs: Numbers, tiles: int, n: int, itemsize: int, columns: int, resident: int) -> int:
    """Programs to one tile of rows side by side, of which each takes so many columns at once; as
    ``parts.split_parts``."""
    elements_per_us = knobs.bytes_per_us / (2 * itemsize)
    held = cdiv(n, columns)
    most = min(resident, MANY_PARTS, cdiv(n, 64), max(FEW_PARTS, held - 1))
    best, least, first = 1, math.inf, 1
    while first <= most:
        groups = min(tiles, resident // first)
        rounds, each = cdiv(tiles, groups), 1 + knobs.exchange_us / groups
        if tiles * n / elements_per_us + rounds * each > least * (1 + 1e-6):
            break  # and more parts have more rounds
        last = min(resident // groups, most)
        idle = min(int(0.8 * resident / groups), last)  # as long as programs are, more are better
        for parts in range(max(first, cdiv(n, cdiv(n, idle))) if idle > first else first, last + 1):
            again = 1.2 + 0.6 * (1 - parts / held) if parts < held else 1.0
            move = max(groups * parts, 0.8 * resident) * cdiv(n, parts) / elements_per_us
            time = rounds * (again * move + each)
            if time < least:
                best, least = parts, time
        first = last + 1
    return best


@register("triton", "softmax", "columns_two_passes")
def columns_two_passes(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to rows side by side leave (max, sum) pairs; a second launch reads the rows again and writes."""
    rows, device = rows_of(x, out), device_of(x)
    if not rows.across:
        raise UnsupportedProblemError("triton/softmax/columns_two_passes", "neighbouring rows must be side by side")
    wide = wide_dtype(x.dtype)
    side = LINE_BYTES // rows.itemsize
    tiles = cdiv(rows.total, side)
    columns = ACROSS_ELEMENTS * 4 // wide.itemsize // side
    resident = ACROSS_PROGRAMS * device.multiprocessors
    most = across_parts(of(Numbers, device.index), tiles, rows.n, rows.itemsize * side, columns, resident)
    plan = split(tiles, rows.n, most, rows.whole_vector, resident)
    pairs = x.new_empty((rows.total, 2, plan.parts), dtype=wide)
    blocks = cdiv(plan.span, columns)
    place = (x, out, pairs, *row_arguments(rows), plan.parts, plan.span // rows.whole_vector, blocks)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min)
    sizes = (blocks > 1, rows.whole_vector, side, columns, power_of_two(plan.parts))
    warps = device.warps(ACROSS_THREADS)

    def part(phase: object) -> Launch:
        args = (*place, *kinds, phase, *sizes)
        return bound("triton/softmax/columns_two_passes", x, split_across_kernel, plan.blocks, args, warps)

    return sequence(part(LEAVE), part(WRITE))
