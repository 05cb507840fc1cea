import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.torch.natural import drop_unit_axis
from kernelzoo.kernels.torch.softmax.limits import is_inexact_on_ordinary_data, overflows_index, rounds_intermediates
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "softmax", "eager")
def eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.softmax, a fused kernel of torch's own. On rows of equal terms it can miss the contract."""
    if rounds_intermediates(x):
        raise UnsupportedProblemError(
            "torch/softmax/eager", "torch's CPU kernel keeps half-precision exponentials unless the axis is the last"
        )
    if overflows_index(x):
        raise UnsupportedProblemError(
            "torch/softmax/eager", f"torch's GPU kernel takes rows of up to {2**31 - 1} elements"
        )
    if is_inexact_on_ordinary_data(x):
        raise UnsupportedProblemError(
            "torch/softmax/eager",
            "torch's kernel adds up a column in one sum, and on the host a row in a few: past 1000 elements, and 2^16"
            " in float32 (2^15 without AVX512) or 2^21 in half precision, that leaves the contract on ordinary data",
        )
    x, out, dim = drop_unit_axis(x, out)

    def launch() -> None:
        torch.softmax(x, dim, out=out)

    return launch
