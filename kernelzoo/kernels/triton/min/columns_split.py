"""Several programs take a strip of neighbouring columns in parts; the last to arrive joins their minima: one launch."""

import torch

from kernelzoo.device import MIB
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.triton.min.arguments import plain
from kernelzoo.kernels.triton.min.column_tiles import Numbers, column_tile, columns_or_refuse, launch_of_columns
from kernelzoo.kernels.triton.min.tiles import LINE_BYTES, MANY_PARTS
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv
from kernelzoo.registry import register
from kernelzoo.tables import of

WIDE_BYTES = 72 * MIB
"""Of columns, from which programs as wide as two lines of memory do better than twice as many."""


@register("triton", "min", "columns_split")
def columns_split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over strips of columns and parts of their length; the last program of a strip joins all parts."""
    id = "triton/min/columns_split"
    x, out = plain(x), plain(out)
    columns, device = columns_or_refuse(id, x, out), device_of(x)
    numbers = of(Numbers, device.index)
    tile = column_tile(numbers, columns)
    bytes = columns.outer * columns.n * columns.inner * columns.itemsize
    if bytes >= WIDE_BYTES:
        tile = column_tile(numbers, columns, line=2 * LINE_BYTES)
    wanted = numbers.across_crowd * device.multiprocessors // columns.strips(tile.columns)
    parts = max(1, min(wanted, MANY_PARTS, cdiv(columns.n, tile.depth)))
    return launch_of_columns(id, x, out, columns, tile, parts)
