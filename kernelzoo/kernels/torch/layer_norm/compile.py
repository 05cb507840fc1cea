import torch

from kernelzoo.kernels.torch.compiled import compile_launch, refuse_on_host
from kernelzoo.kernels.torch.layer_norm.eager import norm_into
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "layer_norm", "compile")
def compile(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """torch.nn.functional.layer_norm under torch.compile with static shapes: Inductor may specialise on each.

    On a GPU only, for the reason that ``torch/softmax/compile`` gives.
    """
    refuse_on_host("torch/layer_norm/compile", x)
    return compile_launch("torch/layer_norm/compile", norm_into, (x, weight, bias, out, eps))
