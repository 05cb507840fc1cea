"""Liger Kernel, https://github.com/linkedin/Liger-Kernel, ``pip install liger-kernel``: Triton.

Source: "Low-level APIs", https://linkedin.github.io/Liger-Kernel/Low-Level-APIs/, and the project's own benchmark,
https://github.com/linkedin/Liger-Kernel/blob/main/benchmark/scripts/benchmark_softmax.py. The two functions are what
its autograd function calls; they choose block and warps.
"""

from __future__ import annotations

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import allocating, rows


@kernelzoo.register("liger", "softmax", "library")
def liger_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Liger Kernel's softmax: a row on a block."""
    matrix, result = rows("liger/softmax/library", x, out)
    if matrix.size(1) > 65536:
        raise UnsupportedProblemError("liger/softmax/library", "it takes rows of up to 65536")
    require("liger", "liger_kernel.ops", "pip install liger-kernel")
    module = require("liger", "liger_kernel.ops.softmax", "pip install liger-kernel")
    return allocating(module, result, lambda: module._softmax_forward(matrix))


@kernelzoo.register("liger", "softmax", "cutile")
def liger_softmax_cutile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Liger Kernel's softmax in cuTile, tuned on the device at its first launch."""
    matrix, result = rows("liger/softmax/cutile", x, out)
    module = require("liger", "liger_kernel.ops.cutile.ops.softmax", "pip install liger-kernel cuda-tile")
    return allocating(module, result, lambda: module._softmax_forward_ct(matrix))


@kernelzoo.register("liger", "softmax", "cute")
def liger_softmax_cute(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Liger Kernel's softmax in the CuTe DSL, compiled for each row length."""
    id = "liger/softmax/cute"
    matrix, result = rows(id, x, out)
    if x.dtype == torch.float64:
        raise UnsupportedProblemError(id, "it takes no float64")
    module = require("liger", "liger_kernel.ops.backends._cutedsl.softmax", "pip install liger-kernel quack-kernels")
    if matrix.size(1) > module._MAX_TILE_CUTEDSL:
        raise UnsupportedProblemError(id, f"it takes rows of up to {module._MAX_TILE_CUTEDSL}")
    return allocating(module, result, lambda: module._softmax_cutedsl_forward(matrix))


@kernelzoo.register("liger", "softmax_backward", "library")
def liger_softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Liger Kernel's backward of softmax: a row on a block."""
    id = "liger/softmax_backward/library"
    (slopes, result), (weights, _) = rows(id, grad, out), rows(id, y, out)
    if slopes.size(1) > 65536:
        raise UnsupportedProblemError(id, "it takes rows of up to 65536")
    require("liger", "liger_kernel.ops", "pip install liger-kernel")
    module = require("liger", "liger_kernel.ops.softmax", "pip install liger-kernel")
    block, warps = module.calculate_settings(slopes.size(1))
    return allocating(module, result, lambda: module._softmax_backward(slopes, weights, block, warps, False))
