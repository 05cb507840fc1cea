"""The gradient of a logarithm of a sum of exponentials."""

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Dtype, Input, Output, Tensor
from kernelzoo.operations.declaring import operation


@operation()
class logsumexp_backward:
    """Gradient of ``logsumexp`` along one axis: ``grad * exp(x - y)``, as torch's.

    x: float16, bfloat16, float32 or float64, any rank. y: its logsumexp along ``dim``, without that axis. grad:
    gradient of y, of its shape. Half precision is computed in float32. Returns a contiguous tensor of x's shape and
    dtype. If x and y are the same infinity, it is NaN there.
    """

    x = Input("outer n inner")
    y = Input("outer inner")
    grad = Input("outer inner")
    out = Output("outer n inner")
    gradient = "reference"
    domain = {"grad": lambda dtype, n: dtype.max}
    finite = ("grad",)  # an infinite gradient times an exponential that underflows would be NaN

    def reference(x: Tensor, y: Tensor, grad: Tensor, dtype: Dtype) -> Tensor:
        power = (x - y[:, None]).exp()
        # If y is not the logsumexp of x, powers may overflow in any dtype but float64.
        return grad[:, None] * (power if dtype == torch.float64 else power.float().to(x.dtype))

    def error(ref: Tensor, x: Tensor, y: Tensor, grad: Tensor, unit: float, tiny: float) -> Tensor:
        """Return the error of the exponential, which grows with |x - y|. A subnormal value may count as zero."""
        depth = (x - y[:, None]).abs().clamp_(max=1500).nan_to_num_(0)
        return depth.mul_(4).add_(8).mul_(unit).mul_(ref.abs()).add_(tiny * (1 + grad.abs()[:, None])).nan_to_num_(0, 0)

    def others(x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the other inputs: the logsumexp of x, and the gradient as drawn."""
        wide = x.float() if x.itemsize < 4 else x
        return wide.logsumexp(1), grad
