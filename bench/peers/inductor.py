"""torch.compile at its most thorough: Inductor tries kernels and their numbers on the device.

Source: "torch.compile", PyTorch, https://docs.pytorch.org/docs/stable/generated/torch.compile.html: of its modes
``max-autotune-no-cudagraphs``, since launches are captured in a CUDA graph here anyway. ``torch/*/compile`` beside it
is the default mode.
"""

from __future__ import annotations

import torch

import kernelzoo
from kernelzoo.kernels.torch.compiled import compiled_call
from kernelzoo.launch import void
from kernelzoo.registry import Launch

from . import rows

MODE = "max-autotune-no-cudagraphs"


def _softmax_into(x: torch.Tensor, out: torch.Tensor) -> None:
    void(out.copy_(torch.softmax(x, 1)))


def _amin_into(x: torch.Tensor, out: torch.Tensor) -> None:
    void(out.copy_(torch.amin(x, 1)))


@kernelzoo.register("inductor", "softmax", "max_autotune")
def inductor_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax under torch.compile with max-autotune and static shapes."""
    id = "inductor/softmax/max_autotune"
    return compiled_call(id, _softmax_into, rows(id, x, out), MODE)


@kernelzoo.register("inductor", "min", "max_autotune")
def inductor_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin under torch.compile with max-autotune and static shapes."""
    id = "inductor/min/max_autotune"
    return compiled_call(id, _amin_into, rows(id, x, out), MODE)
