"""Liger Kernel, https://github.com/linkedin/Liger-Kernel, ``pip install liger-kernel``: Triton.

Source: "Low-level APIs", https://linkedin.github.io/Liger-Kernel/Low-Level-APIs/, and the project's own benchmark,
https://github.com/linkedin/Liger-Kernel/blob/main/benchmark/scripts/benchmark_softmax.py. The functions are what its
autograd functions and its dispatcher call; they choose block and warps. Its other cross entropies wait for the device.
"""

from __future__ import annotations

from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import allocating, as_published, check, rows


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
    module = require("liger", "liger_kernel.ops.backends._cutedsl.softmax", "pip install liger-kernel quack-kernels")
    check(id, matrix, module._MAX_TILE_CUTEDSL, vectors=False)
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


GEMMA = 1
"""The casting mode that computes in float32 and rounds once."""


def rms_norm(f: Any, x: Any, weight: Any, eps: float) -> Any:
    return f(x, weight, eps, 0.0, GEMMA, None)


def cute_rms_norm(f: Any, x: Any, weight: Any, eps: float) -> Any:
    return f(x, weight, eps, 0.0, GEMMA)


def add_rms_norm(f: Any, x: Any, residual: Any, weight: Any, eps: float) -> Any:
    return f(x, residual, weight, eps, 0.0, GEMMA)


def layer_norm(f: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return f(x, weight, bias, eps)


def cross_entropy(f: Any, x: Any, labels: Any, ignore_index: int) -> Any:
    """The part of it that doesn't ask the device for labels out of range, without a gradient and other results."""
    return f(x, labels, None, ignore_index, 0.0, 0.0, "none", None, 0, 0.0, 0.0, *[False] * 4)


CUTE = 32768
"""The longest rows of its forwards in the CuTe DSL; its ``add_rms_norm`` there is Quack's."""

for _id, _place, _call, _longest in (
    ("rms_norm/library", "rms_norm:rms_norm_forward", rms_norm, 65536),
    ("rms_norm/cutile", "cutile.ops.rms_norm:rms_norm_forward", rms_norm, 0),
    ("rms_norm/cute", "backends._cutedsl.rms_norm:_rms_norm_cutedsl_forward", cute_rms_norm, CUTE),
    ("add_rms_norm/library", "fused_add_rms_norm:fused_add_rms_norm_forward", add_rms_norm, 65536),
    ("add_rms_norm/cutile", "cutile.ops.fused_add_rms_norm:_fused_add_rms_norm_forward_ct", add_rms_norm, 0),
    ("layer_norm/library", "layer_norm:layer_norm_forward", layer_norm, 65536),
    ("layer_norm/cutile", "cutile.ops.layer_norm:layer_norm_forward", layer_norm, 0),
    ("layer_norm/cute", "backends._cutedsl.layer_norm:_layer_norm_cutedsl_forward", layer_norm, CUTE),
    # This one writes zeros over the logits of an ignored label, a change of its input, which the gate finds.
    ("cross_entropy/library", "backends._triton.cross_entropy:cross_entropy_loss_and_grad_triton", cross_entropy, 0),
    ("cross_entropy/cute", "backends._cutedsl.cross_entropy:cross_entropy_loss_and_grad_cutedsl", cross_entropy, 0),
):
    as_published(f"liger/{_id}", f"liger_kernel.ops.{_place}", _call, _longest, _id.endswith("cute"))
