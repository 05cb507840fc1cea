"""torch.compile at its most thorough: Inductor tries kernels and their numbers on the device.

Source: "torch.compile", PyTorch, https://docs.pytorch.org/docs/stable/generated/torch.compile.html: of its modes
``max-autotune-no-cudagraphs``, since launches are captured in a CUDA graph here anyway. ``torch/*/compile`` beside it
is the default mode; so is ``default`` here, of operations that have no such form. Functions are written as for torch,
but for half precision where torch would round inside, and return their results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

import kernelzoo
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.kernels.torch.compiled import compile_launch
from kernelzoo.launch import void
from kernelzoo.operations import OPERATIONS
from kernelzoo.registry import Launch, register

from . import returned, rows

MODE = "max-autotune-no-cudagraphs"
MODES = {"default": None, "max_autotune": MODE}


def _softmax_into(x: torch.Tensor, out: torch.Tensor) -> None:
    void(out.copy_(torch.softmax(x, 1)))


def _amin_into(x: torch.Tensor, out: torch.Tensor) -> None:
    void(out.copy_(torch.amin(x, 1)))


@kernelzoo.register("inductor", "softmax", "max_autotune")
def inductor_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax under torch.compile with max-autotune and static shapes."""
    id = "inductor/softmax/max_autotune"
    return compile_launch(id, _softmax_into, rows(id, x, out), MODE)


@kernelzoo.register("inductor", "min", "max_autotune")
def inductor_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin under torch.compile with max-autotune and static shapes."""
    id = "inductor/min/max_autotune"
    return compile_launch(id, _amin_into, rows(id, x, out), MODE)


def sum(x: Any) -> Any:
    return torch.sum(x, 1)


def argmin(x: Any) -> Any:
    return torch.argmin(x, 1)


def cumsum(x: Any) -> Any:
    return torch.cumsum(x, 1)


def logsumexp(x: Any) -> Any:
    return torch.logsumexp(x.to(torch.promote_types(x.dtype, torch.float32)), 1)


def cross_entropy(x: Any, labels: Any, ignore_index: int) -> Any:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return functional.cross_entropy(wide, labels, ignore_index=ignore_index, reduction="none")


def rms_norm(x: Any, weight: Any, eps: float) -> Any:
    return functional.rms_norm(x, weight.shape, weight, eps)


def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float) -> Any:
    total = x + residual
    return functional.rms_norm(total, weight.shape, weight, eps), total


def layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def quantize_rows(x: Any) -> Any:
    top = x.abs().amax(1, keepdim=True).float()
    scale = torch.where(top < LEAST, 1, top / TOP)
    return (x / scale).clamp(-TOP, TOP).to(torch.float8_e4m3fn), scale


def compiled(function: Callable[..., Any], variant: str) -> None:
    """Register a function of rows, compiled in that mode."""
    op = function.__name__
    id, count = f"inductor/{op}/{variant}", len(OPERATIONS[op].outputs)

    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        taken = rows(id, *tensors)
        given = *taken[:-count], *scalars.values()
        return returned(compile_launch(id, function, given, MODES[variant]), *taken[-count:])

    bind.__doc__ = f"{op} as torch.compile makes it in its mode {MODES[variant] or 'default'}, with static shapes."
    register("inductor", op, variant)(bind)


FUNCTIONS = (sum, argmin, cumsum, logsumexp, cross_entropy, rms_norm, add_rms_norm, layer_norm, quantize_rows)

for _function in FUNCTIONS:
    compiled(_function, "max_autotune")
    if _function not in (rms_norm, layer_norm):
        compiled(_function, "default")
