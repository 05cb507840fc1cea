"""Sums over all rows: each group of lanes leaves its own, and a second launch adds these up."""

from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import WARP, machine
from kernelzoo.kernels.numba.dtypes import WIDE, computed_in, number
from kernelzoo.kernels.numba.lanes import THREADS, add_exactly, lanes_tiling, row_values, whole
from kernelzoo.kernels.numba.launch import BindView, KernelOf, prepare
from kernelzoo.kernels.numba.row import block_reduce
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import cdiv, power_of_two

SM_THREADS, MOST_LANES = 1024, 512
"""Of blocks that take rows in turn, on an SM; and to a row."""
BYTES_HELD, SUMS_HELD, MOST_SUMS = 64, 32, 2**26
"""What a thread holds of each input at most; its registers that hold sums; and sums of all groups in memory."""
COLUMNS = Tiling(THREADS // WARP, WARP, 1, 1, across=True)
"""A warp of neighbouring sums to a block."""


def turns_tiling(v: View, sums: int) -> Tiling:
    """Registers hold a row along memory, and so many sums for each of its elements; else element by element."""
    tiles = power_of_two(cdiv(v.n, MOST_LANES * v.pack))
    held, size = tiles * v.pack * v.itemsize <= BYTES_HELD, tiles * v.pack * cdiv(v.itemsize, 4)
    if v.pack > 1 and held and sums * size <= SUMS_HELD:
        return Tiling(max(WARP, min(MOST_LANES, power_of_two(v.n // v.pack))), 1, tiles, v.pack, held=True)
    tiling = lanes_tiling(v)
    return tiling if v.across else Tiling(max(WARP, tiling.lanes), 1, 1, 1)


@cache
def sums_over_rows(dtype: str, tiling: Tiling) -> tuple[Any, Any, Any]:
    """``begin``, ``add``, ``leave``: the sum of a term of each row that a group of lanes takes in turn.

    Sums are in ``sums`` of the tiling's size, if it holds rows, else in memory from ``partials[base]`` on.
    ``begin(partials, base, lane, lanes, n, sums)`` makes them 0, and ``leave`` of the same writes what is held.
    ``add(partials, base, k, n, sums, j, term)`` adds a term of a lane's j-th element, k in its row of n.
    """
    ZERO, SIZE, HELD = number(dtype, 0), tiling.size, tiling.held
    load, store = machine.element_functions(str(WIDE[dtype]))
    _, _, store_tile = row_values(str(WIDE[dtype]), tiling)

    @cuda.jit(device=True, inline="always")
    def begin(partials, base, lane, lanes, n, sums):
        for j in range(SIZE):
            sums[j] = ZERO
        if not HELD:
            for k in range(lane, n, lanes):
                store(partials, base + k, ZERO)

    @cuda.jit(device=True, inline="always")
    def add(partials, base, k, n, sums, j, term):
        if HELD:
            sums[j] += term
        elif k < n:
            store(partials, base + k, load(partials, base + k) + term)

    @cuda.jit(device=True, inline="always")
    def leave(partials, base, lane, lanes, n, sums):
        if HELD:
            store_tile(partials, base, 1, lane, lanes, 0, n, sums)

    return begin, add, leave


@cache
def three_loads(dtype: str, tiling: Tiling) -> tuple[Any, Any]:
    """``read(x, grad, weight, at, start, n, words, grads, weights)``: a lane's elements of a tile of all three, as
    ``row_values`` loads them; and the same once more, which does nothing where the tiling holds rows.

    ``at``: where the rows of x and grad begin, each followed by its step; the weight's step; the lane, and the lanes.
    """
    (load, _, _), (load_weight, _, _) = row_values(dtype, tiling), row_values(dtype, tiling, shared=True)

    @cuda.jit(device=True, inline="always")
    def read(x, grad, weight, at, start, n, words, grads, weights):
        source, x_step, pulled, grad_step, weight_step, lane, lanes = at
        load(x, source, x_step, lane, lanes, start, n, words)
        load(grad, pulled, grad_step, lane, lanes, start, n, grads)
        load_weight(weight, 0, weight_step, lane, lanes, start, n, weights)

    @cuda.jit(device=True, inline="always")
    def nothing(x, grad, weight, at, start, n, words, grads, weights):
        pass

    return read, nothing if tiling.held else read


@cache
def partials_kernel(dtype: str) -> Source:
    kind, ZERO = WIDE[dtype], number(dtype, 0)
    load, _ = machine.element_functions(str(kind))
    _, store = machine.element_functions(dtype)
    _, _, block_sum = block_reduce(COLUMNS, ZERO)
    LANES, SCRATCH = COLUMNS.lanes, COLUMNS.scratch

    def sum_of_partials(partials, out, count, n, out_step):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane = types.int64(cuda.threadIdx.x) // WARP
        k = types.int64(cuda.blockIdx.x) * WARP + cuda.threadIdx.x % WARP
        total, lost = ZERO, ZERO
        for row in range(lane, count if k < n else 0, LANES):
            total, lost = add_exactly(total, lost, load(partials, row * n + k))
        total = block_sum(whole(total, lost), scratch)
        if lane == 0 and k < n:
            store(out, k * out_step, total)

    return Source(sum_of_partials, (str(kind), dtype), COLUMNS.threads, (dtype,))


def by_turns(kernel: KernelOf, v: View, device: Device, sums: int = 1) -> BindView:
    """A call of a kernel whose blocks take rows in turn, and of those that add up what each block leaves.

    The last ``sums`` outputs, of one axis, are sums over all rows. In their place the kernel takes partials.
    """
    tiling = turns_tiling(v, sums)
    blocks = min(cdiv(v.total, tiling.rows), device.multiprocessors * SM_THREADS // tiling.threads)
    blocks = max(1, min(blocks, MOST_SUMS // max(1, tiling.rows * v.n)))  # which leave zeros of no rows
    count = blocks * tiling.rows
    first = prepare(kernel(v.dtype, tiling), device).call(blocks, *v.offsets)
    steps = [*(other.n for other in v.companions), v.out_n][-sums:]
    finish = prepare(partials_kernel(v.dtype), device)
    adding = [finish.call(cdiv(v.n, WARP), count, v.n, step) for step in steps]

    def bind(*tensors: torch.Tensor) -> Launch:
        outs = tensors[-sums:]
        partials = torch.empty((sums, count * v.n), dtype=computed_in(v.dtype), device=outs[0].device)
        added = (add(part, out) for add, part, out in zip(adding, partials, outs, strict=True))
        return sequence(first(*tensors[:-sums], partials), *added)

    return bind
