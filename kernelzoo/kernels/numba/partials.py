"""Sums over all rows: each group of lanes stores partial sums, and a second launch adds these up."""

from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import WIDE, constant, torch_acc_dtype
from kernelzoo.kernels.numba.lanes import THREADS, element_tiling, lane_access
from kernelzoo.kernels.numba.launch import BindView, KernelOf, RowView, Tiling, prepare_kernel
from kernelzoo.kernels.numba.row import thread_mapping, tile_accessors
from kernelzoo.kernels.numba.sum.rows import sum_kernel
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import cdiv, next_power_of_two

SM_THREADS, MOST_LANES = 1024, 512
"""Threads per SM for kernels whose blocks stride over rows, and the most lanes per row."""
BYTES_HELD, SUMS_HELD, MOST_SUMS = 64, 32, 2**26
"""The most bytes of an input in a thread's registers, sums in its registers, and partial sums in memory."""
COLUMNS = Tiling(THREADS // WARP, WARP, 1, 1, across=True)
"""The tiling of the second launch: a block adds up 32 neighbouring columns of partial sums."""


def partials_tiling(v: RowView, sums: int) -> Tiling:
    """Return a tiling that keeps a contiguous row, and ``sums`` sums per element, in registers. If they don't fit,
    return a tiling of single elements."""
    tiles = next_power_of_two(cdiv(v.n, MOST_LANES * v.pack))
    held, size = tiles * v.pack * v.itemsize <= BYTES_HELD, tiles * v.pack * cdiv(v.itemsize, 4)
    if v.pack > 1 and held and sums * size <= SUMS_HELD:
        return Tiling(max(WARP, min(MOST_LANES, next_power_of_two(v.n // v.pack))), 1, tiles, v.pack, held=True)
    tiling = element_tiling(v)
    return tiling if v.is_strided else Tiling(max(WARP, tiling.lanes), 1, 1, 1)


@cache
def group_rows_finder(tiling: Tiling) -> Any:
    """Return ``find_rows(rows)``: (this thread's lane, lanes per row, index of its group of lanes, the group's rows).
    All groups of a block loop over equally many rows, so that threads stay together. The last row may not exist."""
    mapping, ROWS = thread_mapping(tiling), tiling.rows

    @cuda.jit(device=True, inline="always")
    def find_rows(rows):
        lane, lanes, group = mapping()
        mine = types.int64(cuda.blockIdx.x) * ROWS + group
        return lane, lanes, mine, range(mine, rows + group, types.int64(cuda.gridDim.x) * ROWS)

    return find_rows


@cache
def partial_sum_functions(dtype: str, tiling: Tiling, count: int) -> tuple[Any, Any, Any]:
    """Return ``zero_sums``, ``add_terms`` and ``store_sums`` for ``count`` sums per element, over a group's rows.

    Sums are in registers if the tiling keeps rows there, or in ``partials``. ``zero_sums(partials, group, lane, lanes,
    n)`` sets a group's to 0, and returns (places in ``partials``, registers). ``add_terms(partials, places, k, n, sums,
    j, terms)`` adds to the sums of element k, the lane's j-th. ``store_sums(partials, places, lane, lanes, n, sums)``
    stores those in registers."""
    kind, ZERO, HELD, SUMS, ROWS = WIDE[dtype], constant(dtype, 0), tiling.held, count, tiling.rows
    SIZE, ALL = tiling.read_size, count * tiling.read_size
    load, store = machine.element_accessors(str(kind))
    _, _, store_tile, _, _ = tile_accessors(str(kind), tiling, ZERO)

    @cuda.jit(device=True, inline="always")
    def zero_sums(partials, group, lane, lanes, n):
        sums = cuda.local.array(ALL, kind)
        first, apart = group * n, types.int64(cuda.gridDim.x) * ROWS * n
        for j in range(ALL):
            sums[j] = ZERO
        if not HELD:
            for i in range(SUMS):
                for k in range(lane, n, lanes):
                    store(partials, first + i * apart + k, ZERO)
        return (first, apart), sums

    @cuda.jit(device=True, inline="always")
    def add_terms(partials, places, k, n, sums, j, terms):
        first, apart = places
        for i in range(SUMS):
            place = first + i * apart + k
            if HELD:
                sums[i * SIZE + j] += terms[i]
            elif k < n:
                store(partials, place, load(partials, place) + terms[i])

    @cuda.jit(device=True, inline="always")
    def store_sums(partials, places, lane, lanes, n, sums):
        first, apart = places
        for i in range(SUMS if HELD else 0):
            store_tile(partials, first + i * apart, 1, lane, lanes, 0, n, sums, i * SIZE)

    return zero_sums, add_terms, store_sums


@cache
def input_readers(dtype: str, tiling: Tiling) -> tuple[Any, Any]:
    """Return ``read(x, grad, weight, at, start, n, words, grads, weights)`` for a first and for a second pass. It loads
    a lane's elements of a tile, as ``lane_access`` does. If registers keep rows, the second function does nothing.
    ``at``: (offset of x's row, its step, offset of grad's row, its step, the weight's step, lane, lanes)."""
    (load, _, _), (load_weight, _, _) = lane_access(dtype, tiling), lane_access(dtype, tiling, common=True)

    @cuda.jit(device=True, inline="always")
    def read(x, grad, weight, at, start, n, words, grads, weights):
        source, x_step, pulled, grad_step, weight_step, lane, lanes = at
        load(x, source, x_step, lane, lanes, start, n, words)
        load(grad, pulled, grad_step, lane, lanes, start, n, grads)
        load_weight(weight, 0, weight_step, lane, lanes, start, n, weights)

    @cuda.jit(device=True, inline="always")
    def skip_read(x, grad, weight, at, start, n, words, grads, weights):
        pass

    return read, skip_read if tiling.held else read


def bind_with_partials(kernel: KernelOf, v: RowView, sums: int = 1) -> BindView:
    """Return a function of tensors that returns launches of a kernel, then of kernels that add up its blocks' sums.
    The last ``sums`` tensors are one-axis outputs: sums over all rows. The kernel gets partial sums instead."""
    tiling = partials_tiling(v, sums)
    blocks = min(cdiv(v.total, tiling.rows), v.device.multiprocessors * SM_THREADS // tiling.threads)
    blocks = max(1, min(blocks, MOST_SUMS // max(1, tiling.rows * v.n)))  # one block stores zeros if there are no rows
    count = blocks * tiling.rows
    first = prepare_kernel(kernel(v.dtype, tiling), v.device).bind(blocks, *v.kernel_args)
    steps = [*(other.n for other in v.companions), v.out_n][-sums:]
    finish = prepare_kernel(sum_kernel(str(WIDE[v.dtype]), COLUMNS, v.dtype), v.device)
    # Column k of the partials, whose rows are n apart, is summed to element k of the output.
    adding = [finish.bind(cdiv(v.n, WARP), v.n, 1, count, 1, v.n, 0, step, 0, 0, 0) for step in steps]

    def bind(*tensors: torch.Tensor) -> Launch:
        outs = tensors[-sums:]
        partials = torch.empty((sums, count * v.n), dtype=torch_acc_dtype(v.dtype), device=outs[0].device)
        added = (add(part, out) for add, part, out in zip(adding, partials, outs, strict=True))
        return chain_launches(first(*tensors[:-sums], partials), *added)

    return bind
