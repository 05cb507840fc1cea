"""A tile of whole rows to a block, which holds them in registers: one read, one write."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min_backward.device_functions import counted, equal_to, given_to, of_each, shares_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def tile_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, y_at: Strides,
    grad_at: Strides, out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.begin(EARLY)
    row, element, here = dev.place_of(tile, rows, x_at, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    equal = equal_to(least, x, x_at, dev.start_of(row, rows, x_at, TILE), rows.n, element, here, TILE)
    counts = dev.reduced(counted(equal), dev.add, TILE)
    results = given_to(equal, shares_of(of_each(grad, grad_at, row, rows, here, TILE), counts), TILE)
    target = dev.seen(out, dev.start_of(row, rows, out_at, TILE), element, out_at, TILE, 3)
    dev.write(results, target, here, element, rows.n, TILE)


@register("cute", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a block, which holds them in registers: several short ones, one, or a strip of columns."""
    id, given = "cute/min_backward/fused", tiles.problem(x, out, y, grad)
    return bound(id, tile_kernel, (x, y, grad, out), given, tiles.held(id, given, 1))
