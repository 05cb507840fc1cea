"""FlagGems, https://github.com/flagos-ai/FlagGems, ``pip install flag_gems``: Triton.

Source: "Use FlagGems", https://github.com/flagos-ai/FlagGems: its operators take the place of torch's own, and are what
is called here, without torch's dispatcher between. They tune themselves, or have tables for a card. Its sum of a normed
residual writes over both inputs, and has no row; it has no logsumexp.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.registry import Launch, require

from . import allocating, as_published, returned, rows

if found := importlib.util.find_spec("flag_gems"):  # which sets it too, where a kernel may not change the environment
    os.environ["FLAGGEMS_SOURCE_DIR"] = str(Path(found.origin or "").parent.resolve())


@kernelzoo.register("flaggems", "softmax", "library")
def flaggems_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' softmax: a row on a block, in one tile or online."""
    matrix, result = rows("flaggems/softmax/library", x, out)
    require("flaggems", "flag_gems", "pip install flag_gems")
    module = require("flaggems", "flag_gems.ops.softmax", "pip install flag_gems")
    return allocating(module, result, lambda: module.softmax(matrix, 1))


@kernelzoo.register("flaggems", "softmax_backward", "library")
def flaggems_softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' backward of softmax: a row on a block, in one tile or online."""
    id = "flaggems/softmax_backward/library"
    (slopes, result), (weights, _) = rows(id, grad, out), rows(id, y, out)
    require("flaggems", "flag_gems", "pip install flag_gems")
    module = require("flaggems", "flag_gems.ops.softmax", "pip install flag_gems")
    return allocating(module, result, lambda: module.softmax_backward(slopes, weights, 1, grad.dtype))


@kernelzoo.register("flaggems", "min", "library")
def flaggems_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' minimum with its indices, which it has no way to leave out."""
    matrix, result = rows("flaggems/min/library", x, out)
    require("flaggems", "flag_gems", "pip install flag_gems")
    module = require("flaggems", "flag_gems.ops.min", "pip install flag_gems")
    return allocating(module, result, lambda: module.min_dim(matrix, 1))


@kernelzoo.register("flaggems", "sum", "library")
def flaggems_sum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' sum along an axis: a row on a block. Its sum of everything rounds parts to half precision."""
    matrix, result = rows("flaggems/sum/library", x, out)
    module = require("flaggems", "flag_gems.ops.sum", "pip install flag_gems")
    return lambda: void(module.sum_dim_out(matrix, [1], out=result))


@kernelzoo.register("flaggems", "cumsum", "library")
def flaggems_cumsum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' running sums: a row on a block, or in three kernels."""
    matrix, result = rows("flaggems/cumsum/library", x, out)
    module = require("flaggems", "flag_gems.ops.cumsum", "pip install flag_gems")
    return lambda: void(module.cumsum_out(matrix, 1, out=result))


@kernelzoo.register("flaggems", "argmin", "library")
def flaggems_argmin(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' place of a minimum, of all elements in two kernels, or of a row on a block, of whole blocks alone."""
    id = "flaggems/argmin/library"
    matrix, result = rows(id, x, out)
    count, columns = matrix.shape
    if count > 1 and ((columns & (columns - 1) and columns % 4096) or count % 8):
        raise UnsupportedProblemError(id, "its kernel has no mask, and would read and write past the last row")
    module = require("flaggems", "flag_gems.ops.argmin", "pip install flag_gems")
    given, dim = (matrix.view(-1), None) if count == 1 else (matrix, 1)
    return returned(lambda: module.argmin(given, dim), result)


def rms_norm(f: Any, x: Any, weight: Any, eps: float) -> Any:
    return f(x, x.shape[1:], weight, eps)


def layer_norm(f: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return f(x, x.shape[1:], weight, bias, eps)


def cross_entropy(f: Any, x: Any, labels: Any, ignore_index: int) -> Any:
    return f(x, labels, None, "none", ignore_index)


def quantize_rows(f: Any, x: Any) -> Any:
    return f(x, x.size(1))


for _id, _place, _call in (
    ("rms_norm", "ops.rms_norm:rms_norm_forward", rms_norm),
    ("layer_norm", "ops.layernorm:layer_norm", layer_norm),
    ("cross_entropy", "fused.cross_entropy_loss:cross_entropy_loss", cross_entropy),
    ("quantize_rows", "ops.per_token_group_quant_fp8:per_token_group_quant_fp8", quantize_rows),
):
    as_published(f"flaggems/{_id}/library", f"flag_gems.{_place}", _call)
