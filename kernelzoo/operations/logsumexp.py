"""The logarithm of a sum of exponentials along axes, as ``torch.logsumexp``."""

import math
from functools import partial

from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import FLOATS
from kernelzoo.operations.declared import Input, Output, Sample, Tensor
from kernelzoo.operations.declaring import operation


@operation(in_torch="logsumexp", several_axes=True)
class logsumexp:
    """``log(sum(exp(x)))`` along one axis or a tuple of axes, as ``torch.logsumexp``, without overflow.

    dim defaults to the last axis; None or an empty tuple means all axes. x: float16, bfloat16, float32 or float64, any
    rank. Half precision is accumulated in float32. A NaN in a row gives NaN, else +inf gives +inf. A row that is empty
    or all -inf gives -inf.
    """

    x = Input("outer n inner")
    out = Output("outer inner")
    gradient = "logsumexp_backward"
    takes_empty = True

    def reference(x: Tensor) -> Tensor:
        if not x.size(1):
            return x.new_full((x.size(0), x.size(2)), -math.inf)
        top = x.amax(1, keepdim=True)
        top = top.where(top.isfinite(), 0)  # it is subtracted, and inf - inf is NaN
        return (x - top).exp().sum(1).log() + top[:, 0]

    def error(ref: Tensor, x: Tensor, n: int, unit: float) -> Tensor:
        """Return the error that rounding can cause.

        The result is max + log(sum(exp(x - max))). The sum's relative error is its logarithm's absolute error, which
        remains if the two terms cancel. An exponential's relative error grows with max - x. The sum has an error of
        sqrt(n) / 2 roundings. The last addition rounds the result, in each step of a reduction over several axes.
        """
        if not n:
            return ref.new_zeros(ref.shape)
        return (rounding_error(x, n) + 2 * ref.abs()) * unit

    def samples() -> tuple[Sample, ...]:
        return tuple(Sample(f"{dtype}-cancels", (8, 300), partial(cancelling_rows, dtype)) for dtype in FLOATS)


def rounding_error(x: Tensor, n: int) -> Tensor:
    """Return the error of log(sum(exp(x - max))), as a multiple of ``unit``."""
    depth = (x.amax(1, keepdim=True) - x).clamp_(0, 1100).nan_to_num_(0)
    weights = (-depth).exp_()
    total = weights.sum(1)
    mean_depth = (weights * depth).sum(1) / total
    return 16 + 4 * mean_depth + math.sqrt(n) / 2 + 2 * total.log()


def cancelling_rows(dtype: str) -> Tensor:
    """Return rows whose maximum and logarithm almost cancel: results of about 1, 1/8, 1/64, ..."""
    noise = torch.randn(8, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wanted = 8.0 ** -torch.arange(8.0)[:, None]
    return (noise - torch.logsumexp(noise, 1, keepdim=True) + wanted).to(getattr(torch, dtype))
