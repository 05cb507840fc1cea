"""A tile of whole rows to a block, which holds them in registers: one read, one write.

Several short rows, one row, or a strip of columns where rows lie across memory: one kernel, its threads laid out so.
"""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax.device_functions import exponential, zero_if_empty
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def tile_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.begin(EARLY)
    row, element, here = dev.place_of(tile, rows, x_at, TILE)
    source = dev.seen(x, dev.start_of(row, rows, x_at, TILE), element, x_at, TILE, 0)
    target = dev.seen(out, dev.start_of(row, rows, out_at, TILE), element, out_at, TILE, 1)
    values = dev.wide(dev.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
    tops = dev.of_rows([zero_if_empty(top) for top in dev.reduced(values, dev.higher, TILE)], TILE)
    values = [[exponential(value - top) for value, top in zip(vector, tops, strict=True)] for vector in values]
    scales = dev.of_rows([1.0 / total for total in dev.reduced(values, dev.add, TILE)], TILE)
    values = [[value * scale for value, scale in zip(vector, scales, strict=True)] for vector in values]
    dev.write(values, target, here, element, rows.n, TILE)


@register("cute", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a block, which holds them in registers: several short ones, one, or a strip of columns."""
    id, given = "cute/softmax/fused", tiles.problem(x, out)
    return bound(id, tile_kernel, (x, out), given, tiles.held(id, given, 1))
