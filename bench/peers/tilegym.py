"""TileGym, https://github.com/NVIDIA/TileGym, ``pip install tilegym``: NVIDIA's own kernels in cuTile.

Source: "Benchmark", https://github.com/NVIDIA/TileGym/blob/main/tests/benchmark/bench_softmax.py, which measures
a row in a tile by gathers and by TMA, and rows in chunks. Each is tuned on the device at its first launch.
"""

from __future__ import annotations

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import rows

LONGEST = 65536
"""The longest rows of that benchmark: a tile holds a row, but for chunks."""


@kernelzoo.register("tilegym", "softmax", "library")
def tilegym_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """TileGym's softmax: a row in a tile, gathered."""
    return bound("library", x, out, "_launch_softmax_kernel")


@kernelzoo.register("tilegym", "softmax", "tma")
def tilegym_softmax_tma(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """TileGym's softmax: a row in a tile, by TMA."""
    return bound("tma", x, out, "_launch_softmax_kernel_tma")


@kernelzoo.register("tilegym", "softmax", "chunked")
def tilegym_softmax_chunked(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """TileGym's softmax: a row in chunks, read three times."""
    return bound("chunked", x, out, "_launch_softmax_kernel_chunked")


def bound(variant: str, x: torch.Tensor, out: torch.Tensor, name: str) -> Launch:
    """One of TileGym's launchers, which take the output."""
    id = f"tilegym/softmax/{variant}"
    matrix, result = rows(id, x, out)
    columns = matrix.size(1)
    if variant != "chunked" and columns > LONGEST:
        raise UnsupportedProblemError(id, f"a tile holds a row, of up to {LONGEST} here")
    require("tilegym", "tilegym", "pip install tilegym")
    module = require("tilegym", "tilegym.ops.cutile.softmax", "pip install tilegym")
    launcher = getattr(module, name)
    if variant == "library":
        tile = module.next_power_of_2(columns)
        return lambda: launcher(matrix, result, TILE_SIZE=tile)
    return lambda: launcher(matrix, result)
