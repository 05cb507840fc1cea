"""Several programs to a row's shard, on each of several ranks: the exchange of ``split``, and one between ranks.

Programs of a rank merge their pairs as ``split``'s do. One of them puts the shard's pair into every rank's memory,
and all wait for those of the others, in their own. All programs of a rank run at once (a co-operative launch) and take
rows in order, so that the first row which any rank lacks is under way on all.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import (
    INTERPRETED,
    aligned,
    await_last_launch,
    edge_columns,
    row_start,
    whole_vectors,
)
from kernelzoo.kernels.triton.shares import columns_left, store_numbers
from kernelzoo.kernels.triton.softmax.device_functions import exponential
from kernelzoo.kernels.triton.softmax.halves import not_before
from kernelzoo.kernels.triton.softmax.pairs import awaited, pack_pair, unpack_pair
from kernelzoo.kernels.triton.softmax.split import load_logits, online_update, store_share


@triton.jit
def awaited_from_ranks(words, there, limit):
    """The 64-bit words that other devices write, each once not all of its bits are set any more. After limit
    nanoseconds it is taken as it is; 0 where there is none."""
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
        [words, there.to(tl.int32), limit],
        tl.int64,
        is_pure=False,
        pack=1,
    )


@triton.jit
def fence_of_ranks():
    """What this program's threads wrote so far, every device sees that sees what one of them writes from here on."""
    if not INTERPRETED:
        tl.debug_barrier()
        tl.inline_asm_elementwise("fence.acq_rel.sys; mov.b32 $0, 0;", "=r", [], tl.int32, is_pure=False, pack=1)


@triton.jit(do_not_specialize=["parts", "span", "blocks", "limit", "rank"])
def ranks_kernel(
    x, out, pairs, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, blocks,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, PACKED: tl.constexpr, PAIRS: tl.constexpr,
    words, peers, epoch, failed, late, limit, rank, RANKS: tl.constexpr, LANES: tl.constexpr,
    VECTOR: tl.constexpr, THREADS: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A shard's rows, by programs that exchange states with each other and with other ranks. words: (2, rows, RANKS) in
    this rank's memory; peers: the addresses of all ranks' words; epoch: launches on them; failed, late: set where a
    rank was later than limit, here and for the host."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    never = parts < 0
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    part = program % parts
    groups = programs // parts
    thread = tl.arange(0, THREADS)
    lanes = tl.arange(0, PARTS)
    there = lanes < parts
    rank_lanes = tl.arange(0, LANES)
    in_ranks = rank_lanes < RANKS
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    kept = begin + tl.cast(blocks, tl.int64) * (BLOCK * THREADS * VECTOR)
    # Launches alternate between two sets of pairs, of parts and of ranks: each clears the next one's.
    mine = tl.load(arrivals) // programs % 2
    now = tl.load(epoch) % 2
    theirs = tl.load(peers + rank_lanes, in_ranks, other=0).to(tl.pointer_type(tl.int64))
    if part == 0:
        for i in range(program // parts, rows, groups):
            row = tl.cast(i, tl.int64)
            clear = words + ((1 - now) * rows + row) * RANKS + rank_lanes
            tl.store(clear, tl.full([LANES], -1, tl.int64), in_ranks)
        # Who has a pair of this launch may write the next one's words: they are clear.
        fence_of_ranks()
    for i in range(program // parts, rows, groups):
        row = tl.cast(i, tl.int64)
        x_body = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_body = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        inside = n
        if EDGES:
            before, inside = whole_vectors(x_body, n, EDGES)
            edge, known = edge_columns(thread, before, inside, n, EDGES)
            known = known & (thread < 2 * EDGES) & (part == 0)
            edges = tl.load(x + x_body + edge, known, other=float("-inf"))
            out_edges = out + out_body + edge
            x_body = aligned(x_body, EDGES)
            out_body = aligned(out_body, EDGES)
        inside = tl.minimum(inside, end)
        length = columns_left(inside, kept, HELD * THREADS * VECTOR)
        if not BLOCK:
            held = load_logits(x, x_body + kept * x_n, x_n, length, THREADS, HELD, VECTOR, PACKED)
        top = tl.full([THREADS], LOWEST, WIDE)  # finite: see online_kernel
        total = tl.zeros_like(top)
        if BLOCK:
            for k in range(blocks):
                start = begin + tl.cast(k, tl.int64) * (BLOCK * THREADS * VECTOR)
                left = columns_left(inside, start, BLOCK * THREADS * VECTOR)
                block = load_logits(x, x_body + start * x_n, x_n, left, THREADS, BLOCK, VECTOR, PACKED)
                top, total, _ = online_update(top, total, block, never, DTYPE, WIDE, PAIRS, THREADS, BLOCK, VECTOR)
            held = load_logits(x, x_body + kept * x_n, x_n, length, THREADS, HELD, VECTOR, PACKED)
        top, total, held = online_update(top, total, held, never, DTYPE, WIDE, PAIRS, THREADS, HELD, VECTOR)
        all_top, all_total = top, total
        if EDGES:
            all_top = tl.maximum(top, edges.to(WIDE))
            all_total = total * exponential(top - all_top) + exponential(edges.to(WIDE) - all_top)
        part_top = tl.max(all_top, 0)
        part_total = tl.sum(all_total * exponential(all_top - part_top), 0)
        patience = tl.where(tl.load(failed) == 0, limit, 0) + tl.zeros([LANES], tl.int64)
        own = pairs + (mine * rows + row) * parts
        tl.atomic_xchg(own + part, pack_pair(part_top, part_total), sem="relaxed")
        tl.store(own + (1 - 2 * mine) * rows * parts + part, tl.full([], -1, tl.int64))
        tops, totals = unpack_pair(awaited(own + lanes, there))
        tops = tl.where(there, tops, LOWEST)
        shard_top = tl.max(tops, 0)
        shard_total = tl.sum(tl.where(there, totals * exponential(tops - shard_top), 0.0), 0)
        if part == 0:
            word = pack_pair(shard_top, shard_total) + tl.zeros([LANES], tl.int64)
            place = theirs + (now * rows + row) * RANKS + rank
            tl.atomic_xchg(place, word, mask=in_ranks, sem="relaxed", scope="sys")
        found = awaited_from_ranks(words + (now * rows + row) * RANKS + rank_lanes, in_ranks, patience)
        missing = tl.max(((found == -1) & in_ranks).to(tl.int32), 0) > 0
        tl.store(failed, 1, missing)
        tl.store(late, 1, missing)
        # Every program of every rank merges all pairs of a row in the same order, so that all agree to the bit. A word
        # that has not come is a NaN.
        tops, totals = unpack_pair(found)
        tops = tl.where(in_ranks, tops, LOWEST)
        row_top = tl.max(tops, 0)
        inverse = 1.0 / tl.sum(tl.where(in_ranks, totals * exponential(tops - row_top), 0.0), 0)
        here = out + out_body + kept * out_n
        if PACKED:
            held = not_before(held, inverse, never, True)
            store_share(here, out_n, length, held, row_top, inverse, DTYPE, WIDE, THREADS, HELD, VECTOR)
        else:
            factor = exponential(top - row_top) * inverse
            store_numbers(here, out_n, length, held * factor[:, None, None], THREADS, HELD, VECTOR)
        if EDGES:
            tl.store(out_edges, (exponential(edges.to(WIDE) - row_top) * inverse).to(DTYPE), known)
        if BLOCK:
            for k in range(blocks):
                # Backwards: what was read last is likeliest to be in L2 still.
                start = begin + tl.cast(blocks - 1 - k, tl.int64) * (BLOCK * THREADS * VECTOR)
                left = columns_left(inside, start, BLOCK * THREADS * VECTOR)
                block = load_logits(x, x_body + start * x_n, x_n, left, THREADS, BLOCK, VECTOR, PACKED)
                out_block = out + out_body + start * out_n
                store_share(out_block, out_n, left, block, row_top, inverse, DTYPE, WIDE, THREADS, BLOCK, VECTOR)
    if tl.atomic_add(arrivals, 1, sem="acq_rel") % programs == programs - 1:
        tl.atomic_add(epoch, 1, sem="relaxed")
