from functools import cache

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.torch.compiled import compile_launch
from kernelzoo.kernels.torch.natural import drop_unit_axis
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


def _amin_into(x: torch.Tensor, dim: int, out: torch.Tensor) -> None:
    void(out.copy_(torch.amin(x, dim)))


@register("torch", "min", "compile")
def compile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin under torch.compile with static shapes, so that Inductor may specialise on each problem."""
    if x.device.type == "cpu" and x.dtype in (torch.uint8, torch.int8) and _has_8_bit_error(x.dtype):
        raise UnsupportedProblemError(
            "torch/min/compile",
            "what Inductor makes for the host takes numbers of its own for elements of 8 bits "
            "(docs/records/inductor-8-bit.md)",
        )
    x, out, dim = drop_unit_axis(x, out)
    return compile_launch("torch/min/compile", _amin_into, (x, dim, out))


@cache
def _has_8_bit_error(dtype: torch.dtype) -> bool:
    """Whether Inductor's minimum of 8-bit elements is wrong in this torch, by the smallest problem that shows it."""
    x = torch.full((1, 16), 100, dtype=dtype, device="cpu")
    out = x.new_ones(1)
    compile_launch("torch/min/compile", _amin_into, (x, 1, out))()
    return bool(out != 100)
