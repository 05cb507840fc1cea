"""A tile of whole rows to a block, which holds them in registers: one read, one write.

Several short rows, one row, or a strip of columns where rows lie across memory: one kernel, its threads laid out so.
"""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import tiles, words
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax.words import exponential, zero_if_empty
from kernelzoo.kernels.cute.words import Rows, Strides
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def tile_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = words.begin(EARLY)
    row, element, here = words.place_of(tile, rows, x_at, TILE)
    source = words.seen(x, words.start_of(row, rows, x_at, TILE), element, x_at, TILE, 0)
    target = words.seen(out, words.start_of(row, rows, out_at, TILE), element, out_at, TILE, 1)
    values = words.wide(words.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
    tops = words.of_rows([zero_if_empty(top) for top in words.reduced(values, words.higher, TILE)], TILE)
    values = [[exponential(value - top) for value, top in zip(vector, tops, strict=True)] for vector in values]
    scales = words.of_rows([1.0 / total for total in words.reduced(values, words.add, TILE)], TILE)
    values = [[value * scale for value, scale in zip(vector, scales, strict=True)] for vector in values]
    words.write(values, target, here, element, rows.n, TILE)


@register("cute", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a block, which holds them in registers: several short ones, one, or a strip of columns."""
    id, given = "cute/softmax/fused", tiles.problem(x, out)
    return bound(id, tile_kernel, (x, out), given, tiles.held(id, given, 1))
