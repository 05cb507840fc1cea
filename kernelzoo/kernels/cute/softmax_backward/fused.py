"""A tile of whole rows of both inputs to a block, which holds them in registers: each is read once."""

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
def tile_kernel(
    grad: cute.Pointer, y: cute.Pointer, out: cute.Pointer, rows: Rows, grad_at: Strides, y_at: Strides,
    out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, element, here = dev.row_coords(tile, rows, grad_at, TILE)
    grads = load_input(grad, grad_at, dev.row_offset(row, rows, grad_at, TILE), rows.n, element, here, TILE, 0)
    weights = load_input(y, y_at, dev.row_offset(row, rows, y_at, TILE), rows.n, element, here, TILE, 1)
    totals = dev.row_reduce(products(grads, weights), dev.add, TILE)
    results = gradient(grads, weights, dev.broadcast_rows(totals, TILE))
    tXgO = dev.make_thread_tensor(out, dev.row_offset(row, rows, out_at, TILE), element, out_at, TILE, 2)
    dev.store_tile(results, tXgO, here, element, rows.n, TILE)


@register("cute", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows of both inputs to a block, which holds them: several short ones, one, or a strip of columns."""
    id, given = "cute/softmax_backward/fused", tiles.problem(grad, out, y)
    return bound(id, tile_kernel, (grad, y, out), given, tiles.held(id, given, 2))
