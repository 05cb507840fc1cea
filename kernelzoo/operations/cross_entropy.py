"""The cross entropy of logits and labels, as ``torch.nn.functional.cross_entropy`` without its mean."""

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Input, Output, Sample, Scalar, Tensor
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.logsumexp import rounding_error


@operation()
class cross_entropy:
    """``log(sum(exp(x))) - x[label]`` of each row, as torch's cross entropy with ``reduction="none"``.

    x: logits, float16, bfloat16, float32 or float64, any rank; the classes lie along the axis ``dim``. labels: int64,
    of x's shape without that axis. Half precision is accumulated in float32. Returns a tensor of labels' shape and x's
    dtype. A row whose label is ``ignore_index`` has the loss 0, even if it has a NaN. A NaN or +inf in a row
    makes its loss NaN, and so does a row that is all -inf.

    Every other label is an index from 0 to n - 1. On the host, a wrong label raises RangeError. On a GPU, its loss is
    NaN instead, because a check would have to wait for the device.
    """

    x = Input("outer n inner")
    labels = Input("outer inner", dtype="int64", low=0, high="n", also=("ignore_index",), checked=True)
    ignore_index = Scalar(-100, also=(0,))
    loss = Output("outer inner")
    gradient = "cross_entropy_backward"

    def reference(x: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
        shifted = x - x.amax(1, keepdim=True)  # NaN for an infinite maximum, as in torch
        ignored = labels == ignore_index
        picked = shifted.gather(1, labels.masked_fill(ignored, 0)[:, None])[:, 0]
        return (shifted.exp().sum(1).log() - picked).masked_fill(ignored, 0)

    def error(ref: Tensor, x: Tensor, labels: Tensor, ignore_index: int, n: int, unit: float) -> Tensor:
        """Return the error of the sum's logarithm, as for ``logsumexp``, and of the last additions.

        The loss is log(sum(exp(x - max))) + (max - x[label]). Neither term is negative, so they don't cancel.
        """
        return ((rounding_error(x, n) + 2 * ref.abs()) * unit).masked_fill(labels == ignore_index, 0)

    def samples() -> tuple[Sample, ...]:
        return (Sample("float32-alike-40000", (2, 40000), rows_of_one_repeated_number),)


def rows_of_one_repeated_number() -> Tensor:
    """Return rows that repeat one number, so large that adding a logarithm does not change it."""
    return torch.tensor([[1e30], [-1e6]]).expand(2, 40000).contiguous()
