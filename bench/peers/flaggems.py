"""FlagGems, https://github.com/flagos-ai/FlagGems, ``pip install flag_gems``: Triton.

Source: "Use FlagGems", https://github.com/flagos-ai/FlagGems: its operators take the place of torch's own, and are what
is called here, without torch's dispatcher between. They tune themselves, or have tables for a card.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch

import kernelzoo
from kernelzoo.registry import Launch, require

from . import allocating, rows

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
