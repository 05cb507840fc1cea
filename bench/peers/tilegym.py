"""TileGym, https://github.com/NVIDIA/TileGym, ``pip install tilegym``: NVIDIA's own kernels in cuTile.

Source: "Benchmark", https://github.com/NVIDIA/TileGym/blob/main/tests/benchmark/bench_softmax.py, which measures
a row in a tile by gathers and by TMA, and rows in chunks. Each is tuned on the device at its first launch. The other
operations: ops/ and suites/ there, by their own choice of kernel.
"""

from __future__ import annotations

from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import as_published, rows

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


def rms_norm(f: Any, x: Any, weight: Any, eps: float) -> Any:
    return f(x, None, weight, eps)


def layer_norm(f: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return f(x, 1, 2, weight, bias, eps)


def persistent(f: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return f(x, None, weight, bias, eps)


def cross_entropy(f: Any, x: Any, labels: Any, ignore_index: int) -> Any:
    if ignore_index != -100:
        raise UnsupportedProblemError("tilegym/cross_entropy/library", "it ignores the label -100 alone")
    return f.apply(x, labels)


def quantize_rows(f: Any, x: Any) -> Any:
    return f(x, x.size(1))


for _id, _place, _call in (
    ("rms_norm/library", "ops.cutile.rms_norm:rms_norm", rms_norm),
    ("layer_norm/library", "ops.cutile.layer_norm:layer_norm", layer_norm),
    ("layer_norm/tuned", "ops.cutile.layer_norm_legacy:persistent_layer_norm", persistent),
    ("cross_entropy/library", "suites.unsloth.cutile.cross_entropy_loss:_Fast_CrossEntropyLoss_CT", cross_entropy),
    (
        "quantize_rows/library",
        "suites.flashinfer.cutile.per_token_group_quant_8bit:per_token_group_quant_8bit",
        quantize_rows,
    ),
):
    as_published(f"tilegym/{_id}", f"tilegym.{_place}", _call)
