import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import end_of_vectors
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.min.atomics import atomic_launch, atomic_minimum, part_minima
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit(do_not_specialize=["blocks", "pieces"])
def atomic_batched_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, blocks, pieces,
    ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr, TILES: tl.constexpr,
    BLOCK_M: tl.constexpr, SUB_BLOCK_N: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    block = (program % blocks).to(tl.int64)
    first = (program // blocks).to(tl.int64) * (TILES * BLOCK_M)
    cols = tl.arange(0, SUB_BLOCK_N).to(tl.int64)
    start_n = block * pieces * SUB_BLOCK_N
    end_n = tl.minimum(start_n + tl.cast(pieces, tl.int64) * SUB_BLOCK_N, end_of_vectors(n, EDGES))
    tiles = tl.arange(0, TILES)[:, None]
    minima = tl.full([TILES, BLOCK_M], IDENTITY, ACC_DTYPE)
    for tile in range(TILES):
        if first + tile * BLOCK_M < rows:
            row = first + tile * BLOCK_M + tl.arange(0, BLOCK_M)
            x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
            result = part_minima(
                x, x_start, x_n, n, cols, start_n, end_n, row < rows,
                ACC_DTYPE, IDENTITY, EDGES, FOLD, BLOCK_M, SUB_BLOCK_N,
            )  # fmt: skip
            minima = tl.where(tiles == tile, result[None, :], minima)
    row = first + tiles * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
    atomic_minimum(out + row_start(row, inner, out_outer, out_inner, 1), minima, row < rows)


@register("triton", "min", "atomic_batched")
def atomic_batched(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share each row. Each keeps the minima of its tiles, and sends all by atomics at the end."""
    return atomic_launch("triton/min/atomic_batched", atomic_batched_kernel, x, out)
