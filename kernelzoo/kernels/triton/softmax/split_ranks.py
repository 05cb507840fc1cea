"""Softmax of rows that are sharded over ranks: pairs are exchanged within each rank, and between ranks.

Programs of a rank merge their pairs as in ``split``. One of them writes the shard's pair into every rank's memory. All
programs wait in their own rank's memory for the pairs of the other ranks. There is no deadlock: all programs of a rank
run at once (co-operative launch), and take rows in order. All ranks work on the first row that any rank awaits.

The kernel isn't registered, because it needs the memory of other ranks: ``kernelzoo.distributed`` binds it.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.exchange import (
    EXCHANGE,
    alternate_word_set,
    await_words,
    pack_pair,
    publish_word,
    unpack_pair,
)
from kernelzoo.kernels.shared.jit import bind_grid, device_of
from kernelzoo.kernels.triton.device_functions import INTERPRETED, align, await_last_launch, row_start
from kernelzoo.kernels.triton.shares import locate_part_and_held_columns, locate_part_body_and_edges
from kernelzoo.kernels.triton.softmax.split import part_max_and_sum, split_plan, write_part
from kernelzoo.launch import Launch
from kernelzoo.layout import next_power_of_two, rows_of

ID = "triton/softmax/split_ranks"


@triton.jit
def await_rank_words(words, mask, limit):
    """Wait for 64-bit words that other devices write, and return them. Until a word is written, all its bits are 1.
    After ``limit`` nanoseconds it is returned as it is. Where ``mask`` is false, the result is 0."""
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred found, none, early;
            .reg .b64 now, end;
            mov.b64 $0, 0;
            setp.eq.s32 none, $2, 0;
            @none bra DONE;
            mov.u64 now, %globaltimer;
            add.u64 end, now, $3;
        AGAIN:
            ld.relaxed.sys.global.b64 $0, [$1];
            setp.ne.s64 found, $0, -1;
            @found bra DONE;
            mov.u64 now, %globaltimer;
            setp.lt.u64 early, now, end;
            @early bra AGAIN;
        DONE:
        }
        """,
        "=&l,l,r,l",
        [words, mask.to(tl.int32), limit],
        tl.int64,
        is_pure=False,
        pack=1,
    )


@triton.jit
def fence_rank_writes():
    """Fence this program's writes: a device that sees a write after the fence sees all writes before it."""
    if not INTERPRETED:
        tl.debug_barrier()
        tl.inline_asm_elementwise("fence.acq_rel.sys; mov.b32 $0, 0;", "=r", [], tl.int32, is_pure=False, pack=1)


@triton.jit(do_not_specialize=["parts", "span", "blocks", "limit", "rank"])
def ranks_kernel(
    x, out, pairs, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    parts, span, blocks, ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, PACKED: tl.constexpr,
    PAIRS: tl.constexpr, words, peers, epoch, failed, late, limit, rank, RANKS: tl.constexpr, LANES: tl.constexpr,
    VECTOR: tl.constexpr, THREADS: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute softmax of a shard's rows. Programs exchange states with each other and with other ranks. words: (2,
    rows, RANKS) in this rank's memory. peers: the addresses of all ranks' words. epoch: how many launches used the
    words. failed (for the device) and late (for the host): set if a rank took longer than ``limit``."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    never = parts < 0
    part, groups, begin, end, kept = locate_part_and_held_columns(parts, span, blocks, THREADS, BLOCK, VECTOR)
    first = tl.program_id(0) // parts
    lanes = tl.arange(0, PARTS)
    there = lanes < parts
    rank_lanes = tl.arange(0, LANES)
    in_ranks = rank_lanes < RANKS
    mine = alternate_word_set(arrivals, EXCHANGE)
    now = tl.load(epoch) % 2  # launches alternate between two sets of words
    theirs = tl.load(peers + rank_lanes, in_ranks, other=0).to(tl.pointer_type(tl.int64))
    if part == 0:
        for i in range(first, rows, groups):
            row = tl.cast(i, tl.int64)
            clear = words + ((1 - now) * rows + row) * RANKS + rank_lanes
            tl.store(clear, tl.full([LANES], -1, tl.int64), in_ranks)
        # A rank that has a pair of this launch may write words of the next launch. So these must be cleared first.
        fence_rank_writes()
    for i in range(first, rows, groups):
        row = tl.cast(i, tl.int64)
        x_body = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_body = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        inside, edge, known = locate_part_body_and_edges(x_body, n, part, EDGES, THREADS)
        edges = tl.load(x + x_body + edge, known, other=float("-inf")) if EDGES else edge
        out_edges = out + out_body + edge
        x_body = align(x_body, EDGES)
        out_body = align(out_body, EDGES)
        inside = tl.minimum(inside, end)
        top, held, part_top, part_total = part_max_and_sum(
            x, x_body, x_n, inside, begin, kept, blocks, edges, never,
            ACC_DTYPE, LOWEST, EDGES, PACKED, PAIRS, False, VECTOR, THREADS, HELD, BLOCK,
        )  # fmt: skip
        patience = tl.where(tl.load(failed) == 0, limit, 0) + tl.zeros([LANES], tl.int64)
        own = pairs + (mine * rows + row) * parts
        publish_word(own, part, (1 - 2 * mine) * rows * parts, pack_pair(part_top, part_total), EXCHANGE)
        tops, totals = unpack_pair(await_words(own + lanes, there))
        tops = tl.where(there, tops, LOWEST)
        shard_top = tl.max(tops, 0)
        shard_total = tl.sum(tl.where(there, totals * exponential(tops - shard_top), 0.0), 0)
        if part == 0:
            word = pack_pair(shard_top, shard_total) + tl.zeros([LANES], tl.int64)
            place = theirs + (now * rows + row) * RANKS + rank
            tl.atomic_xchg(place, word, mask=in_ranks, sem="relaxed", scope="sys")
        found = await_rank_words(words + (now * rows + row) * RANKS + rank_lanes, in_ranks, patience)
        missing = tl.max(((found == -1) & in_ranks).to(tl.int32), 0) > 0
        tl.store(failed, 1, missing)
        tl.store(late, 1, missing)
        # Every program of every rank merges all pairs of a row in the same order, so all get the same bits. A word that
        # is missing is a NaN.
        tops, totals = unpack_pair(found)
        tops = tl.where(in_ranks, tops, LOWEST)
        row_top = tl.max(tops, 0)
        inverse = 1.0 / tl.sum(tl.where(in_ranks, totals * exponential(tops - row_top), 0.0), 0)
        write_part(
            x, x_body, x_n, out, out_body, out_n, inside, begin, kept, blocks, held, top, row_top, inverse, never,
            not PACKED, ACC_DTYPE, PACKED, VECTOR, THREADS, HELD, BLOCK,
        )  # fmt: skip
        if EDGES:
            tl.store(out_edges, (exponential(edges.to(ACC_DTYPE) - row_top) * inverse).to(out.dtype.element_ty), known)
    programs = tl.num_programs(0)
    if tl.atomic_add(arrivals, 1, sem="acq_rel") % programs == programs - 1:
        tl.atomic_add(epoch, 1, sem="relaxed")


def split_ranks(
    x: torch.Tensor,
    out: torch.Tensor,
    words: torch.Tensor,
    peers: torch.Tensor,
    state: torch.Tensor,
    late: torch.Tensor,
    rank: int,
    ranks: int,
    limit: int,
) -> Launch:
    """Return the launch over a shard. x and out have axes outer, n and inner.

    words: (2, rows, ranks) int64, all bits set before the first launch. peers: the addresses of all ranks' words.
    state: two int64, initially 0: how many launches used the words, and whether one failed. late: an int64 that the
    host reads, set if a rank took too long. limit: the longest wait, in nanoseconds.

    Raises UnsupportedProblemError if the GPU isn't from NVIDIA, or if elements have more than 32 bits.
    """
    if not device_of(x).is_nvidia or x.itemsize > 4:
        raise UnsupportedProblemError(ID, "it takes up to 32 bits an element, on NVIDIA's devices")
    plan, args = split_plan(x, out, rows_of(x, out), ID)
    options = {"maxnreg": plan.registers, "launch_cooperative_grid": True}
    between = (words, peers, state[:1], state[1:], late, limit, rank, ranks, next_power_of_two(ranks))
    return bind_grid(ID, ranks_kernel, plan.programs, (*args, *between, *plan.sizes), plan.warps, **options)
