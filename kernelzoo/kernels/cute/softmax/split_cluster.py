"""Each block writes its (max, sum) state into the shared memory of all blocks of its cluster. A receiver's barrier
counts the bytes, so that a block waits only for what it reads."""

from dataclasses import replace

import cutlass
import torch
from cutlass import Int32, Int64, cute

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind, device_of
from kernelzoo.kernels.cute.softmax.device_functions import exponential, rescale_sum, zero_if_empty
from kernelzoo.kernels.cute.tiles import MOST_THREADS, WARP, Problem, Tile, make_problem, max_thread_vectors
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, next_power_of_two
from kernelzoo.registry import register

MOST_BLOCKS = 16
"""Blocks per cluster, at most, if the device allows it. Every device with clusters allows 8."""

USUAL_BYTES = 128
"""Bytes of a widened row per thread, unless the largest cluster needs more. A multiprocessor then has registers for two
blocks, and one reads while the other computes."""

LEAST = 2048
"""Elements per row, at least, for a cluster to pay off."""

THREADS = (128, 256, MOST_THREADS)
"""Possible threads per block. The fewest in which a row fits are used: the exchanges of many small blocks on a
multiprocessor overlap. An unaligned row has at least 256."""


@cute.kernel
def cluster_kernel(arguments, BLOCKS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """Each thread block processes one block of its cluster's row."""
    number = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    kind = dev.acc_type(TILE)
    room = cute.arch.alloc_smem(Int32, BLOCKS * kind.width // 16, 16)  # a pair per block, as words
    barrier = cute.arch.alloc_smem(Int64, 1, 8)
    make_barrier(barrier)
    rank = cute.arch.block_idx_in_cluster()
    tXcX, tXgX, tXgO = dev.partition(number // BLOCKS, rows, TILE, x, out)
    values = dev.load(tXgX, tXcX, rank, rows, TILE, -float("inf"))
    (top,) = dev.row_reduce(values, dev.maximum, TILE)
    less = zero_if_empty(top)
    values = [[exponential(value - less) for value in vector] for vector in values]
    (total,) = dev.row_reduce(values, dev.add, TILE)
    send_state(top, total, room, barrier, BLOCKS)
    pairs = cute.make_tensor(cute.recast_ptr(room, dtype=kind), cute.make_layout((2, BLOCKS)))
    theirs = cute.arch.lane_idx() % BLOCKS  # a pair per lane, in the same order in all warps and blocks
    row_top = zero_if_empty(reduce_lanes(pairs[0, theirs], dev.maximum, BLOCKS))
    # A block of only -inf sends -inf. It doesn't send the 0 that it subtracts: this could exceed the row's maximum.
    row_total = reduce_lanes(rescale_sum(pairs[0, theirs], pairs[1, theirs], row_top), dev.add, BLOCKS)
    scale = exponential(top - row_top) * (1.0 / row_total)
    values = [[value * scale for value in vector] for vector in values]
    dev.store(values, tXgO, tXcX, rank, rows, TILE)


def reduce_lanes(value, join, BLOCKS):
    """Reduce the values of each group of BLOCKS adjacent lanes, by shuffles."""
    for step in range(BLOCKS.bit_length() - 1):
        value = join(value, cute.arch.shuffle_sync_bfly(value, offset=1 << step))
    return value


def to_words(value):
    """Convert a number to 32-bit words. Stores to another block's shared memory take words."""
    if value.width == 32:
        return [value.bitcast(Int32)]
    bits = value.bitcast(Int64)
    return [bits.to(Int32), (bits >> 32).to(Int32)]


@cute.jit
def make_barrier(barrier: cute.Pointer):
    """Make a barrier that waits for one arrival and for bytes. Then tell the cluster that it exists."""
    thread, _, _ = cute.arch.thread_idx()
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()


@cute.jit
def send_state(top, total, states: cute.Pointer, barrier: cute.Pointer, BLOCKS: cutlass.Constexpr):
    """Write this block's state into the shared memory of every block of the cluster, whose barriers count the bytes.
    One thread per receiver writes, to the position of this block's rank. Returns when this block has all states."""
    words = tuple(to_words(top) + to_words(total))
    rank, (thread, _, _) = cute.arch.block_idx_in_cluster(), cute.arch.thread_idx()
    cute.arch.cluster_wait()  # now all blocks run, and have made their barriers
    if thread == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, BLOCKS * len(words) * 4)
    if thread < BLOCKS:
        cute.arch.store_async_dsmem(states + cute.assume(rank * len(words), divby=len(words)), words, barrier, thread)
    cute.arch.mbarrier_wait(barrier, 0)


def fit_cluster(problem: Problem, device: Device) -> tuple[Tile, int] | None:
    """Return (tile of each block, number of blocks) of a cluster in which a row fits, or None if none fits."""
    if problem.across or device.cluster_blocks < 2 or problem.row_length < LEAST:
        return None
    vector = problem.elements_per_vector()
    vectors, most = cdiv(problem.padded_length, vector), max_thread_vectors(problem, vector, 1)
    usual = min(most, 16, USUAL_BYTES // problem.rows.accumulator_bytes // vector)
    for many in THREADS[problem.has_partial_vectors :]:
        blocks = min(MOST_BLOCKS, device.cluster_blocks, max(2, next_power_of_two(cdiv(vectors, many * usual))))
        threads = min(many, max(WARP, next_power_of_two(cdiv(vectors, blocks * usual))))
        each = cdiv(vectors, blocks * threads)
        if each <= most:
            made = tiles.make_tile(problem, threads, threads, vector, each)
            whole = not made.has_partial_vectors and problem.row_length == blocks * made.block_length
            return replace(made, whole=whole), blocks
    return None


@register("cute", "softmax", "split_cluster")
def split_cluster(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The blocks of a thread-block cluster share a row and keep it in registers: one read, one write."""
    id, given, device = "cute/softmax/split_cluster", make_problem(x, out), device_of(x)
    made = fit_cluster(given, device)
    if made is None:
        vector = given.elements_per_vector()
        most = MOST_BLOCKS * MOST_THREADS * max_thread_vectors(given, vector, 1) * vector
        words = f"it takes rows of {LEAST} to {most} of {given.rows.dtype} laid out so, along memory, on sm_90 or later"
        raise UnsupportedProblemError(id, f"{words}; got {given.row_length}")
    tile, blocks = made
    return bind(id, cluster_kernel, (x, out), given, tile, (blocks,), cluster=blocks)
