from dataclasses import replace
from typing import NamedTuple

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.device import Device, is_batch_invariant
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.softmax.device_functions import online_update
from kernelzoo.kernels.shared.device_functions import exponential, split_coarse_fine
from kernelzoo.kernels.shared.exchange import await_words, pack_pair, unpack_pair
from kernelzoo.kernels.shared.halves import delay_unpacking, unpack_halves
from kernelzoo.kernels.shared.jit import (
    bind_grid,
    can_pack,
    device_of,
    edge_vector_size,
    row_arguments,
    wide_dtype,
    wide_type,
)
from kernelzoo.kernels.shared.split import split
from kernelzoo.launch import Launch
from kernelzoo.layout import MANY, Rows, cdiv, rows_of
from kernelzoo.registry import register


class ProgramResources(NamedTuple):
    """A program's number of warps and register limit per thread, and how many such programs fit on an SM."""

    warps: int
    registers: int
    resident: int


HELD_BYTES, BLOCK_BYTES = 256, 64
"""Bytes of a row per thread: in registers, and in a block of the rest, which is read twice. Sizes are those in the
dtype of the computation, or in registers those of words of two halves."""

WORDS_EACH = gl.constexpr(16)
"""How many words, of two half-precision numbers each, a thread unpacks at a time."""

EXCHANGE_ELEMENTS = 2048
"""The cost of an exchange: how many elements a program could read and write in that time."""


@gluon.jit
def interleave(low, high, LAYOUT: gl.constexpr):
    """Interleave the low and high halves of words into memory order. LAYOUT keeps the numbers on the same threads."""
    return gl.convert_layout(gl.reshape(gl.join(low, high), [2 * low.shape[0]]), LAYOUT)


@gluon.jit(do_not_specialize=["parts", "span", "blocks"])
def split_kernel(
    x, out, pairs, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, parts, span, blocks, UNIT: gl.constexpr, ACC_DTYPE: gl.constexpr, LOWEST: gl.constexpr,
    EDGES: gl.constexpr, PACKED: gl.constexpr, EXACT: gl.constexpr, HELD: gl.constexpr, BLOCK: gl.constexpr,
    THREADS: gl.constexpr, LAYOUT: gl.constexpr, WORD_LAYOUT: gl.constexpr, LANE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Compute softmax of one part of each row. Programs of a row exchange (max, sum) states.

    Up to HELD elements of a part stay in registers. The rest is read twice, in blocks of BLOCK elements. EXACT: parts
    begin at the same columns of every row, have unaligned ends of their own, and fit in registers. Exponentials are
    split into terms that add up without rounding. So the sum's bits don't depend on alignment.
    """
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    WORDS: gl.constexpr = 2 if ACC_DTYPE == gl.float64 else 1  # noqa: SIM300  # of 64 bits per pair
    n = gl.cast(n, gl.int64) * MULTIPLE
    program = gl.program_id(0)
    programs = gl.num_programs(0)
    part = program % parts
    groups = programs // parts
    lane = gl.arange(0, THREADS, LANE_LAYOUT)
    peer = lane < parts
    cols = gl.arange(0, HELD, LAYOUT)
    never = parts < 0
    # Words stay in registers as pieces. One piece is unpacked at a time.
    PIECE: gl.constexpr = WORDS_EACH * THREADS
    PIECES: gl.constexpr = HELD // 2 // PIECE if PACKED else 0
    EMPTY: gl.constexpr = -0x7F0080 if gl.bfloat16 == DTYPE else -0x3FF0400  # two of -inf, as an int32
    if PACKED:
        word = gl.arange(0, PIECE, WORD_LAYOUT)
        piece_cols = gl.arange(0, 2 * PIECE, LAYOUT)
    begin = part.to(gl.int64) * span * UNIT
    end = begin + gl.cast(span, gl.int64) * UNIT
    if BLOCK:
        block_cols = gl.arange(0, BLOCK, LAYOUT)
    kept = begin + gl.cast(blocks, gl.int64) * BLOCK
    cut = 0
    if EXACT:
        cut = begin
        n = gl.minimum(n, end) - cut
        kept -= cut
    # Launches alternate between two sets of pairs. Each launch clears the set of the next launch.
    mine = gl.load(arrivals) // programs % 2
    for number in range(program // parts, rows, groups):
        row = gl.cast(number, gl.int64)
        x_row = (row // inner * x_outer + row % inner * x_inner) * MULTIPLE + cut
        out_row = (row // inner * out_outer + row % inner * out_inner) * MULTIPLE + cut
        inside = n
        x_body = x_row
        out_body = out_row
        if EDGES:
            before = gl.minimum((-x_row) & (EDGES - 1), n)
            inside = (n - before) // EDGES * EDGES
            edge = gl.where(lane < EDGES, lane, before + inside + lane - EDGES)
            known = gl.where(lane < EDGES, lane < before, edge < n) & (lane < 2 * EDGES) & (EXACT or part == 0)
            edges = gl.load(x + x_row + edge, known, other=float("-inf")).to(ACC_DTYPE)
            x_body = (x_row + EDGES - 1) // EDGES * EDGES
            out_body = (out_row + EDGES - 1) // EDGES * EDGES
        inside = gl.minimum(inside, end)
        if BLOCK:
            tops = gl.full([BLOCK], LOWEST, ACC_DTYPE, LAYOUT)
            totals = gl.full([BLOCK], 0.0, ACC_DTYPE, LAYOUT)
            for k in range(blocks):
                start = begin + gl.cast(k, gl.int64) * BLOCK
                block_here = x + (x_body + start * x_n) + block_cols.to(gl.int64) * x_n
                block = gl.load(block_here, block_cols < inside - start, other=float("-inf"))
                tops, totals = online_update(tops, totals, block.to(ACC_DTYPE))
            streamed_top = gl.max(tops, 0)
            streamed_total = gl.sum(totals * exponential(tops - streamed_top), 0)
        length = inside - kept
        mask = cols < length
        if PACKED:
            held = []
            words_left = length // 8 * 4
            for i in gl.static_range(PIECES):
                place = (x + (x_body + kept)).to(gl.pointer_type(gl.int32), bitcast=True) + (word + i * PIECE)
                held += [gl.load(place, word < words_left - i * PIECE, other=EMPTY)]
            largest = gl.full([PIECE], LOWEST, ACC_DTYPE, WORD_LAYOUT)
            for i in gl.static_range(PIECES):
                low, high = unpack_halves(held[i], DTYPE)
                largest = gl.maximum(largest, gl.maximum(low, high))
        else:
            held = gl.load(x + (x_body + kept * x_n) + cols.to(gl.int64) * x_n, mask, other=float("-inf")).to(ACC_DTYPE)
            largest = held
        top = gl.maximum(gl.max(largest, 0), LOWEST)  # finite: see online_state
        if EDGES:
            top = gl.maximum(top, gl.max(edges, 0))
        if BLOCK:
            top = gl.maximum(top, streamed_top)
        if PACKED:
            terms = gl.full([PIECE], 0.0, ACC_DTYPE, WORD_LAYOUT)
            fine = gl.full([PIECE], 0.0, ACC_DTYPE, WORD_LAYOUT)
            for i in gl.static_range(PIECES):
                low, high = unpack_halves(delay_unpacking(held[i], top, never), DTYPE)
                low, high = exponential(low - top), exponential(high - top)
                if EXACT:
                    low, fine_low = split_coarse_fine(low)
                    high, fine_high = split_coarse_fine(high)
                    fine += fine_low + fine_high
                terms += low + high
            total = gl.sum(terms.to(gl.float64) + fine.to(gl.float64) if EXACT else terms, 0)
        else:
            held = exponential(held - top)
            total = gl.sum(held, 0)
        if BLOCK:
            total += streamed_total * exponential(streamed_top - top)
        if EDGES:
            of_edges = exponential(edges - top)
            if EXACT:
                of_edges, of_fine = split_coarse_fine(of_edges)
                of_edges = of_edges.to(gl.float64) + of_fine.to(gl.float64)
            total = (total + gl.sum(of_edges, 0)).to(ACC_DTYPE)
        # A pair with all bits set isn't stored yet. No number is stored with these bits, nor any NaN.
        slots = pairs + (mine * rows + row) * (WORDS * parts)
        others = slots + (1 - 2 * mine) * rows * (WORDS * parts)
        if WORDS == 2:
            two = gl.where(total == total, total, float("nan")).to(gl.int64, bitcast=True)
            gl.atomic_xchg(slots + part, top.to(gl.int64, bitcast=True), sem="relaxed")
            gl.atomic_xchg(slots + parts + part, two, sem="relaxed")
            gl.store(others + part, gl.to_tensor(-1).to(gl.int64))
            gl.store(others + parts + part, gl.to_tensor(-1).to(gl.int64))
            row_tops = await_words(slots + lane, peer).to(gl.float64, bitcast=True)
            row_totals = await_words(slots + parts + lane, peer).to(gl.float64, bitcast=True)
        else:
            gl.atomic_xchg(slots + part, pack_pair(top, total), sem="relaxed")
            gl.store(others + part, gl.to_tensor(-1).to(gl.int64))
            row_tops, row_totals = unpack_pair(await_words(slots + lane, peer))
        # Every program merges all pairs of its rows in the same order, so all get the same bits.
        row_tops = gl.where(peer, row_tops, LOWEST)
        row_top = gl.max(row_tops, 0)
        inverse = 1.0 / gl.sum(gl.where(peer, row_totals * exponential(row_tops - row_top), 0.0), 0)
        if PACKED:
            numbers_left = length // 8 * 8
            for i in gl.static_range(PIECES):
                low, high = unpack_halves(delay_unpacking(held[i], inverse, never), DTYPE)
                low = (exponential(low - row_top) * inverse).to(DTYPE)
                high = (exponential(high - row_top) * inverse).to(DTYPE)
                place = out + (out_body + kept) + (piece_cols + 2 * i * PIECE)
                gl.store(place, interleave(low, high, LAYOUT), piece_cols < numbers_left - 2 * i * PIECE)
        else:
            factor = exponential(top - row_top) * inverse
            here = out + (out_body + kept * out_n) + cols.to(gl.int64) * out_n
            gl.store(here, (held * factor).to(DTYPE), mask)
        if EDGES:
            gl.store(out + out_row + edge, (exponential(edges - row_top) * inverse).to(DTYPE), known)
        if BLOCK:
            for k in range(blocks):
                # Backwards: what was read last is likely still in L2.
                start = begin + gl.cast(blocks - 1 - k, gl.int64) * BLOCK
                block_here = x + (x_body + start * x_n) + block_cols.to(gl.int64) * x_n
                left = block_cols < inside - start
                result = exponential(gl.load(block_here, left, other=float("-inf")).to(ACC_DTYPE) - row_top) * inverse
                gl.store(out + (out_body + start * out_n) + block_cols.to(gl.int64) * out_n, result.to(DTYPE), left)
    gl.atomic_add(arrivals, 1, sem="relaxed")


def choose_programs_per_row(rows: int, n: int, held: int, most: int, resident: int) -> int:
    """Return the fastest number of programs per row that keeps a row in registers. If none can, return the most."""
    least, most = cdiv(n, held), min(most, resident)
    if least > most:
        return most

    def time(parts: int) -> int:
        return cdiv(rows, resident // parts) * (cdiv(n, parts) + EXCHANGE_ELEMENTS)

    # Not only powers of two: 3 and 11 also divide 132 multiprocessors.
    return min(range(least, most + 1), key=time)


@register("gluon", "softmax", "split_grid")
def split_grid(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row, and keep it on chip while they exchange (max, sum) states: one launch."""
    id, rows, device = "gluon/softmax/split_grid", rows_of(x, out), device_of(x)
    if rows.is_strided or not device.is_nvidia:
        why = "neighbours of a row must be nearest in memory" if rows.is_strided else "its programs can't wait here"
        raise UnsupportedProblemError(id, why)
    return make_exchange_launch(id, x, out, rows, device)


def make_exchange_launch(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, device: Device) -> Launch:
    """Return the launch of ``split_kernel`` on a device whose programs can wait for each other."""
    wide = wide_dtype(x.dtype)
    # The register limit of an H200 would spill a few registers on other devices.
    team = ProgramResources(8, 128, 2) if device.arch in ("", "sm_90") else ProgramResources(4, 168, 3)
    threads = team.warps * tiles.LANES  # each thread awaits one pair, which limits the programs per row
    held, block = (bytes // rows.accumulator_bytes * threads for bytes in (HELD_BYTES, BLOCK_BYTES))
    resident = team.resident * device.multiprocessors
    exact = rows.single and can_pack(rows.with_vector_loads) and rows.n <= (2 * held - 8) * min(threads, resident)
    if exact or (is_batch_invariant() and not rows.single):
        rows = replace(rows.with_vector_loads, planned=MANY)
    unit, inside = tiles.choose_vector_width(rows), rows.n if exact else tiles.max_length_in_vectors(rows)
    words = rows.itemsize == 2 and unit == rows.vector_elements
    held *= 1 + words
    parts = choose_programs_per_row(rows.planned, inside, held - unit, threads, resident)
    plan = split(rows.total, inside, parts, unit, resident)
    blocks = cdiv(max(0, plan.span - held), block)
    layout = gl.BlockedLayout([unit], [tiles.LANES], [team.warps], [0])
    word_layout = gl.BlockedLayout([max(1, unit // 2)], [tiles.LANES], [team.warps], [0])
    lanes = gl.BlockedLayout([1], [tiles.LANES], [team.warps], [0])
    pairs = x.new_full((2, rows.total, wide.itemsize // 4, plan.parts), -1, dtype=torch.int64)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    place = (x, out, pairs, arrivals, *row_arguments(rows), plan.parts, plan.span // unit, blocks, unit)
    kinds = (wide_type(x.dtype), tiles.lowest_finite(wide), edge_vector_size(rows))
    sizes = (words, exact, held, block if blocks else 0, threads)
    args = (*place, *kinds, *sizes, layout, word_layout, lanes)
    options = {"maxnreg": team.registers, "launch_cooperative_grid": True}
    return bind_grid(id, split_kernel, plan.blocks, args, team.warps, **options)
