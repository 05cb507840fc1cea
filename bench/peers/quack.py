"""Quack, https://github.com/Dao-AILab/quack, ``pip install quack-kernels``: CuTe DSL.

Source: "Getting Memory-bound Kernels to Speed-of-Light", with the authors' own figures on an H100,
https://github.com/Dao-AILab/quack/blob/main/media/2025-07-10-membound-sol.md. ``_softmax_fwd`` and
``_softmax_backward`` are what ``quack.softmax`` calls, with the output given; they choose threads and clusters.
"""

from __future__ import annotations

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import rows


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


def check(id: str, matrix: torch.Tensor) -> None:
    if matrix.dtype == torch.float64:
        raise UnsupportedProblemError(id, "it takes no float64")
    if matrix.size(1) * matrix.element_size() % 16:
        raise UnsupportedProblemError(id, "it takes rows of whole vectors of 16 bytes")
