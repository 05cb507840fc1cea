import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register
from kernelzoo.torch_private import softmax_gradient


def may_miss_contract(grad: torch.Tensor) -> bool:
    """Whether torch's kernel may miss the contract. It rounds half precision in between. It adds strided rows in one
    sum, and on the host any row in a few sums. On a GPU it takes rows of up to 2^31 elements."""
    n, side_by_side = grad.size(1), grad.size(2)
    if grad.itemsize == 2:
        return True
    if grad.device.type == "cpu":
        return n > (512 if side_by_side == 1 else 32)
    return n > (32 if side_by_side > 64 else 512 if side_by_side > 1 else 2**23)


@register("torch", "softmax_backward", "eager")
def eager(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One fused kernel of torch's own, that of ``torch.softmax``'s backward pass."""
    if may_miss_contract(grad):
        raise UnsupportedProblemError(
            "torch/softmax_backward/eager",
            "torch's kernel rounds half precision on the way, and adds up long rows in a few sums, longer columns in "
            "one: that may leave the contract",
        )
    grad, y, out = drop_unit_axes(grad, y, out)

    def launch() -> None:
        void(softmax_gradient(grad, y, 1, grad.dtype, grad_input=out))

    def launch_copied() -> None:
        # On the host, torch 2.13 writes to an output that is not contiguous as if it were contiguous.
        void(out.copy_(softmax_gradient(grad, y, 1, grad.dtype)))

    return launch if out.is_contiguous() else launch_copied
