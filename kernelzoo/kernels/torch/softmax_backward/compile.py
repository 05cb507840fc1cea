import torch

from kernelzoo.kernels.torch.compiled import compile_launch, refuse_on_host
from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register
from kernelzoo.torch_private import softmax_gradient


def _backward_into(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    void(out.copy_(softmax_gradient(grad, y, 1, grad.dtype)))


@register("torch", "softmax_backward", "compile")
def compile(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Autograd's function for torch.softmax, under torch.compile with static shapes: Inductor may specialise on each.

    On a GPU only, for the reason that ``torch/softmax/compile`` gives.
    """
    refuse_on_host("torch/softmax_backward/compile", grad)
    return compile_launch("torch/softmax_backward/compile", _backward_into, drop_unit_axes(grad, y, out))
