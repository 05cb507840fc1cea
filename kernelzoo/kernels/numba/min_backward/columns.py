"""Rows that lie across memory: neighbouring threads take neighbouring columns, down which each goes once or twice."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.beside import beside, strips_of
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.min_backward.arithmetic import by_column, nan, shares
from kernelzoo.kernels.numba.row import Tiling, elements, spread, word_type
from kernelzoo.kernels.numba.softmax_backward.columns import THREADS, meeting
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import WARP, machine
from kernelzoo.registry import register

ID = "numba/min_backward/columns"


@cache
def columns_kernel(dtype: str, vec: int, lanes: int, tiles: int, held: bool) -> Source:
    """``lanes`` threads side by side have ``vec`` neighbouring columns each; the block's other threads go on below.

    A thread reads ``tiles`` places of its columns at once. Where that is all of them, ``held``, they stay in its
    registers; or else it goes down counting, and comes back up, reads again and writes.
    """
    kind, NAN = WIDE[dtype], nan(dtype)
    VEC, LANES, TILES, WIDE_ROWS, HELD = vec, lanes, tiles, lanes * vec, held
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    SIZE, SLOTS = WORDS * tiles, lanes * vec * THREADS // WARP
    NOTHING = spread(dtype, VEC, NAN)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    load, _ = elements(dtype)
    matches, finish = by_column(dtype, VEC, WORDS)
    shares_of, meet = shares(dtype), meeting(VEC, lanes)

    @cuda.jit(device=True, inline="always")
    def read(x, at, apart, i, depths, end, row):
        for tile in range(TILES):
            for k in range(WORDS):
                row[tile * WORDS + k] = NOTHING
            load_vector(x, at + tile * apart, row, tile * WORDS, i + tile * depths < end)

    @cuda.jit(device=True, inline="always")
    def give(out, at, apart, i, depths, end, row, least, share, rest):
        for tile in range(TILES):
            finish(row, tile * WORDS, least, share, rest)
            store_vector(out, at + tile * apart, row, tile * WORDS, i + tile * depths < end)

    def columns(
        x, y, grad, out, groups, neighbours, n, x_group, x_step, x_column, out_group, out_step, out_column,
        y_group, y_step, y_column, grad_group, grad_step, grad_column,
    ):  # fmt: skip
        row = cuda.local.array(SIZE, WORD)
        least = cuda.local.array(VEC, kind)
        share = cuda.local.array(VEC, kind)
        rest = cuda.local.array(VEC, kind)
        count = cuda.local.array(VEC, types.int64)
        counts = cuda.shared.array(SLOTS, types.int64)
        t = types.int64(cuda.threadIdx.x)
        depth, depths = t // LANES, types.int64(cuda.blockDim.x) // LANES
        block = types.int64(cuda.blockIdx.x)
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = block // across
        column = (block - group * across) * WIDE_ROWS + t % LANES * VEC
        end = n if column < neighbours else types.int64(0)
        for k in range(VEC):
            least[k], count[k] = NAN, types.int64(0)
            if column < neighbours:
                least[k] = load(y, group * y_group + (column + k) * y_column)
        source, target = group * x_group + column * x_column, group * out_group + column * out_column
        i = depth
        if HELD:
            read(x, source + i * x_step, depths * x_step, i, depths, end, row)
            for tile in range(TILES):
                matches(row, tile * WORDS, least, count)
        else:
            while i < end:
                read(x, source + i * x_step, depths * x_step, i, depths, end, row)
                for tile in range(TILES):
                    matches(row, tile * WORDS, least, count)
                i += TILES * depths
        meet(count, counts)
        for k in range(VEC):
            slope = NAN
            if column < neighbours:
                slope = load(grad, group * grad_group + (column + k) * grad_column)
            share[k], rest[k] = shares_of(slope, count[k])
        if HELD:
            give(out, target + i * out_step, depths * out_step, i, depths, end, row, least, share, rest)
            return
        while i > depth:  # what was read last is the likeliest to be in a cache still
            i -= TILES * depths
            read(x, source + i * x_step, depths * x_step, i, depths, end, row)
            give(out, target + i * out_step, depths * out_step, i, depths, end, row, least, share, rest)

    return Source(columns, (dtype, dtype, dtype, dtype), THREADS, (dtype, vec, lanes, tiles, held), inputs=3)


@register("numba", "min_backward", "columns")
@planned()
def columns(v: View, device: Device, _: None) -> BindView:
    """Neighbouring threads take neighbouring columns: held in registers, or read twice where they are too long."""
    c = v.columns
    if c is None:
        raise UnsupportedProblemError(ID, "these are no rows that lie across memory")
    vec = c.vector
    lanes, tiles, threads, held = strips_of(c, vec, 8 if c.itemsize < 8 else 4, THREADS, device)
    grid = within_grid(ID, c.strips(lanes * vec))
    kernel = prepare(columns_kernel(c.dtype, vec, lanes, tiles, held), device)
    ours = (c.outer, c.inner, c.n, c.x_outer, c.x_n, c.x_inner, c.out_outer, c.out_n, c.out_inner)
    return kernel.call(grid, *ours, *(stride for other in beside(v) for stride in other), threads=threads)
