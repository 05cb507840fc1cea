"""Choosers of torch's variants. They never choose ``compile``: compiling takes seconds that no single call saves."""

import torch

from kernelzoo.kernels.torch.softmax.limits import is_inexact_on_equal_terms, overflows_index, rounds_intermediates
from kernelzoo.kernels.torch.softmax_backward.eager import may_miss_contract
from kernelzoo.registry import chooser


@chooser("torch", "layer_norm", "auto")
@chooser("torch", "min", "auto")
@chooser("torch", "min_backward", "auto")
@chooser("torch", "rms_norm", "auto")
def eager(*tensors: torch.Tensor, **scalars: float) -> str:
    """Always eager: compiling takes seconds that no single call saves."""
    return "eager"


@chooser("torch", "softmax", "auto")
def softmax(x: torch.Tensor, out: torch.Tensor) -> str:
    """Eager; if that may miss the contract, renormalized on the host and naive on a GPU. Compiling takes too long."""
    if not (rounds_intermediates(x) or is_inexact_on_equal_terms(x) or overflows_index(x)):
        return "eager"
    return "renormalized" if x.device.type == "cpu" else "naive"


@chooser("torch", "softmax_backward", "auto")
def softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Eager; naive if that may miss the contract. Compiling takes seconds that no single call saves."""
    return "naive" if may_miss_contract(grad) else "eager"
