"""Sums over all rows: each block of a launch leaves its own, and a second launch adds these up."""

from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import WARP, add, machine
from kernelzoo.kernels.numba.dtypes import WIDE, computed_in, number
from kernelzoo.kernels.numba.lanes import THREADS, add_exactly, lanes_tiling, whole
from kernelzoo.kernels.numba.launch import BindView, KernelOf, prepare
from kernelzoo.kernels.numba.row import block_reduce, warp_reduce
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import cdiv

SM_THREADS = 1024
"""Of blocks that take rows in turn."""
COLUMNS = Tiling(THREADS // WARP, WARP, 1, 1, across=True)
"""A warp of neighbouring sums to a block."""


@cache
def row_sum(dtype: str, tiling: Tiling) -> Any:
    """``add_rows(sums, start, k, n, group, term)`` adds a term of each of the block's rows to ``sums[start + k]``.

    That belongs to the lanes of its place. All of a warp come here.
    """
    over_rows, (load, store) = warp_reduce(add, tiling.rows), machine.element_functions(str(WIDE[dtype]))

    @cuda.jit(device=True, inline="always")
    def add_rows(sums, start, k, n, group, term):
        term = over_rows(term)
        if group == 0 and k < n:
            store(sums, start + k, load(sums, start + k) + term)

    return add_rows


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
    tiling = lanes_tiling(v)
    if not v.across:
        tiling = Tiling(max(WARP, tiling.lanes), 1, 1, 1)
    blocks = min(cdiv(v.total, tiling.rows), device.multiprocessors * SM_THREADS // tiling.threads)
    blocks = max(1, blocks)  # which leave zeros of no rows
    first = prepare(kernel(v.dtype, tiling), device).call(blocks, *v.offsets)
    steps = [*(other.n for other in v.companions), v.out_n][-sums:]
    finish = prepare(partials_kernel(v.dtype), device)
    adding = [finish.call(cdiv(v.n, WARP), blocks, v.n, step) for step in steps]

    def bind(*tensors: torch.Tensor) -> Launch:
        outs = tensors[-sums:]
        partials = torch.empty((sums, blocks * v.n), dtype=computed_in(v.dtype), device=outs[0].device)
        added = (add(part, out) for add, part, out in zip(adding, partials, outs, strict=True))
        return sequence(first(*tensors[:-sums], partials), *added)

    return bind
