"""A running sum in each thread over blocks of both inputs, then a pass that reads again and writes."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax_backward.device_functions import gradient, load_input, products
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    grad: cute.Pointer, y: cute.Pointer, out: cute.Pointer, rows: Rows, grad_at: Strides, y_at: Strides,
    out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, grad_at, TILE)
    grad_start, y_start = dev.row_offset(row, rows, grad_at, TILE), dev.row_offset(row, rows, y_at, TILE)
    out_start = dev.row_offset(row, rows, out_at, TILE)
    blocks = dev.num_blocks(rows, TILE)
    sums = dev.make_accumulator(0, TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        grads = load_input(grad, grad_at, grad_start, rows.n, element, here, TILE, 0)
        weights = load_input(y, y_at, y_start, rows.n, element, here, TILE, 1)
        dev.accumulate(sums, dev.thread_reduce(products(grads, weights), dev.add, TILE), dev.add)
    totals = dev.broadcast_rows(dev.block_reduce(dev.registers(sums), dev.add, TILE), TILE)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        grads = load_input(grad, grad_at, grad_start, rows.n, element, here, TILE, 0)
        weights = load_input(y, y_at, y_start, rows.n, element, here, TILE, 1)
        tXgO = dev.make_thread_tensor(out, out_start, element, out_at, TILE, 2)
        dev.store_tile(gradient(grads, weights, totals), tXgO, here, element, rows.n, TILE)


@register("cute", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum in each thread, then a pass that reads again and writes."""
    given = tiles.problem(grad, out, y)
    return bound("cute/softmax_backward/online", online_kernel, (grad, y, out), given, tiles.block(given, 2))
