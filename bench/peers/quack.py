"""Quack, https://github.com/Dao-AILab/quack, ``pip install quack-kernels``: CuTe DSL.

Source: "Getting Memory-bound Kernels to Speed-of-Light", with the authors' own figures on an H100,
https://github.com/Dao-AILab/quack/blob/main/media/2025-07-10-membound-sol.md. ``_softmax_fwd``,
``_softmax_backward`` and ``_rmsnorm_fwd`` are what its functions call, with the output given; they choose threads and
clusters. ``rmsnorm_fwd_tuned`` compiles hundreds of kernels a row length, and is not measured.
"""

from __future__ import annotations

from typing import Any

import torch

import kernelzoo
from kernelzoo.registry import Launch, require

from . import check, returned, rows


@kernelzoo.register("quack", "softmax", "library")
def quack_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Quack's softmax: a row on a cluster of blocks, compiled for each row length."""
    id = "quack/softmax/library"
    matrix, result = rows(id, x, out)
    check(id, matrix)
    module = require("quack", "quack.softmax", "pip install quack-kernels")
    return lambda: module._softmax_fwd(matrix, result)


@kernelzoo.register("quack", "softmax_backward", "library")
def quack_softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Quack's backward of softmax: a row on a cluster of blocks, compiled for each row length."""
    id = "quack/softmax_backward/library"
    (slopes, result), (weights, _) = rows(id, grad, out), rows(id, y, out)
    check(id, slopes)
    module = require("quack", "quack.softmax", "pip install quack-kernels")
    return lambda: module._softmax_backward(slopes, weights, result)


@kernelzoo.register("quack", "rms_norm", "library")
def quack_rms_norm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Quack's RMS norm: a row on some threads, a block or a cluster, compiled for each row length."""
    return normed("rms_norm", (x, weight, out), eps=eps)


@kernelzoo.register("quack", "add_rms_norm", "library")
def quack_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """Quack's RMS norm with a residual. It norms the sum before that is rounded to half precision."""
    return normed("add_rms_norm", (x, weight, out), residual=residual, residual_out=total, eps=eps)


@kernelzoo.register("quack", "layer_norm", "library")
def quack_layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float
) -> Launch:
    """Quack's layer norm, whose kernel takes weights of x's dtype too: its wrapper wants them in float32."""
    return normed("layer_norm", (x, weight, out), bias=bias, eps=eps, is_layernorm=True)


@kernelzoo.register("quack", "cross_entropy", "library")
def quack_cross_entropy(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """Quack's cross entropy without a gradient. It returns float32, which no clock times the rounding of."""
    id = "quack/cross_entropy/library"
    matrix, places, result = rows(id, x, labels, loss)
    check(id, matrix)
    module = require("quack", "quack.cross_entropy", "pip install quack-kernels")
    return returned(lambda: module.cross_entropy_fwd(matrix, places, ignore_index=ignore_index), result)


def normed(op: str, tensors: tuple[torch.Tensor, ...], **more: Any) -> Launch:
    """A launch of ``_rmsnorm_fwd``, which all its norms call, with the outputs given."""
    id = f"quack/{op}/library"
    named = {name: value for name, value in more.items() if isinstance(value, torch.Tensor)}
    taken = rows(id, *tensors, *named.values())
    check(id, taken[0])
    module = require("quack", "quack.rmsnorm", "pip install quack-kernels")
    given = more | dict(zip(named, taken[3:], strict=True))
    return lambda: module._rmsnorm_fwd(*taken[:3], **given)
