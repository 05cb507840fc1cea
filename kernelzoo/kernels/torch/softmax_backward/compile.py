"""The gradient of a softmax as torch.compile makes it."""

import torch

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.torch.compiled import compiled_call
from kernelzoo.kernels.torch.natural import naturals
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register
from kernelzoo.torch_private import softmax_gradient


def _backward_into(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    void(out.copy_(softmax_gradient(grad, y, 1, grad.dtype)))


@register("torch", "softmax_backward", "compile")
def compile(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """The same under torch.compile with static shapes, so that Inductor may specialise on each problem.

    On a GPU only, as ``torch/softmax/compile`` is.
    """
    if grad.device.type == "cpu":
        reason = "what Inductor makes for the host is not exact enough for the contract"
        raise BackendUnavailableError("torch/softmax_backward/compile", reason, "use a GPU, or the variant eager")
    return compiled_call("torch/softmax_backward/compile", _backward_into, naturals(grad, y, out))
