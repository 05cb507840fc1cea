"""Rows that lie across memory: neighbouring threads take neighbouring columns, down which each goes once or twice."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.beside import beside, strips_of, vector_of
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import Tiling, word_type
from kernelzoo.kernels.numba.softmax_backward.arithmetic import add, by_column, whole
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import EVERY_LANE, WARP, machine
from kernelzoo.registry import register

ID = "numba/softmax_backward/columns"
THREADS = 512
"""Of a block, at most."""


@cache
def meeting(vec: int, lanes: int) -> Any:
    """``meet(total, sums)``: each of a thread's ``vec`` numbers becomes the sum of all that the block's threads have of
    its column, in a fixed order. ``sums`` is shared memory for those of each warp."""
    VEC, LANES, WIDE_ROWS = vec, lanes, lanes * vec
    STEPS = (WARP // lanes).bit_length() - 1

    @cuda.jit(device=True, inline="always")
    def meet(total, sums):
        t, warps = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x) // WARP
        first = t % LANES * VEC
        for k in range(VEC):
            s = total[k]
            for step in range(STEPS):
                s += cuda.shfl_xor_sync(EVERY_LANE, s, 16 >> step)
            if t % WARP < LANES:
                sums[t // WARP * WIDE_ROWS + first + k] = s
        cuda.syncthreads()
        for k in range(VEC):
            total[k] = sums[first + k]
        warp = types.int64(1)
        while warp < warps:
            for k in range(VEC):
                total[k] += sums[warp * WIDE_ROWS + first + k]
            warp += 1

    return meet


@cache
def columns_kernel(dtype: str, vec: int, lanes: int, tiles: int, held: bool) -> Source:
    """``lanes`` threads side by side have ``vec`` neighbouring columns each; the block's other threads go on below.

    A thread reads ``tiles`` places of its columns at once. Where that is all of them, ``held``, they stay in its
    registers; or else it goes down adding up, and comes back up, reads again and writes.
    """
    kind, ZERO = WIDE[dtype], type(one(dtype))(0)
    VEC, LANES, TILES, WIDE_ROWS, HELD = vec, lanes, tiles, lanes * vec, held
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    SIZE, SLOTS = WORDS * tiles, lanes * vec * THREADS // WARP
    NOTHING = types.uint32(0) if machine.is_packed(dtype, vec) else ZERO
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    products, finish = by_column(dtype, VEC, WORDS)
    meet = meeting(VEC, lanes)

    @cuda.jit(device=True, inline="always")
    def read(pointer, at, apart, i, depths, end, words):
        for tile in range(TILES):
            for k in range(WORDS):
                words[tile * WORDS + k] = NOTHING
            load_vector(pointer, at + tile * apart, words, tile * WORDS, i + tile * depths < end)

    @cuda.jit(device=True, inline="always")
    def take(grads, weights, part):
        for k in range(VEC):
            part[k] = ZERO
        for tile in range(TILES):
            products(grads, weights, tile * WORDS, part)

    @cuda.jit(device=True, inline="always")
    def give(out, at, apart, i, depths, end, grads, weights, total):
        for tile in range(TILES):
            finish(grads, weights, tile * WORDS, total)
            store_vector(out, at + tile * apart, grads, tile * WORDS, i + tile * depths < end)

    def columns(
        grad, y, out, groups, neighbours, n, x_group, x_step, x_column, out_group, out_step, out_column,
        y_group, y_step, y_column,
    ):  # fmt: skip
        grads = cuda.local.array(SIZE, WORD)
        weights = cuda.local.array(SIZE, WORD)
        total = cuda.local.array(VEC, kind)
        carry = cuda.local.array(VEC, kind)
        part = cuda.local.array(VEC, kind)
        sums = cuda.shared.array(SLOTS, kind)
        t = types.int64(cuda.threadIdx.x)
        depth, depths = t // LANES, types.int64(cuda.blockDim.x) // LANES
        block = types.int64(cuda.blockIdx.x)
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = block // across
        column = (block - group * across) * WIDE_ROWS + t % LANES * VEC
        end = n if column < neighbours else types.int64(0)
        source, other = group * x_group + column * x_column, group * y_group + column * y_column
        target = group * out_group + column * out_column
        if HELD:
            read(grad, source + depth * x_step, depths * x_step, depth, depths, end, grads)
            read(y, other + depth * y_step, depths * y_step, depth, depths, end, weights)
            take(grads, weights, total)
            meet(total, sums)
            give(out, target + depth * out_step, depths * out_step, depth, depths, end, grads, weights, total)
            return
        for k in range(VEC):
            total[k] = ZERO
            carry[k] = ZERO
        i = depth
        while i < end:
            read(grad, source + i * x_step, depths * x_step, i, depths, end, grads)
            read(y, other + i * y_step, depths * y_step, i, depths, end, weights)
            take(grads, weights, part)
            for k in range(VEC):
                total[k], carry[k] = add(total[k], carry[k], part[k])
            i += TILES * depths
        for k in range(VEC):
            total[k] = whole(total[k], carry[k])
        meet(total, sums)
        while i > depth:  # what was read last is the likeliest to be in a cache still
            i -= TILES * depths
            read(grad, source + i * x_step, depths * x_step, i, depths, end, grads)
            read(y, other + i * y_step, depths * y_step, i, depths, end, weights)
            give(out, target + i * out_step, depths * out_step, i, depths, end, grads, weights, total)

    return Source(columns, (dtype, dtype, dtype), THREADS, (dtype, vec, lanes, tiles, held), inputs=2)


@register("numba", "softmax_backward", "columns")
@planned()
def columns(v: View, device: Device, _: None) -> BindView:
    """Neighbouring threads take neighbouring columns: held in registers, or read twice where they are too long."""
    c = v.columns
    if c is None:
        raise UnsupportedProblemError(ID, "these are no rows that lie across memory")
    strides = beside(v)
    vec = vector_of(c, v.others, strides)
    lanes, tiles, threads, held = strips_of(c, vec, 8 if c.itemsize < 8 else 4, THREADS, device)
    grid = within_grid(ID, c.strips(lanes * vec))
    kernel = prepare(columns_kernel(c.dtype, vec, lanes, tiles, held), device)
    ours = (c.outer, c.inner, c.n, c.x_outer, c.x_n, c.x_inner, c.out_outer, c.out_n, c.out_inner)
    return kernel.call(grid, *ours, *(stride for other in strides for stride in other), threads=threads)
