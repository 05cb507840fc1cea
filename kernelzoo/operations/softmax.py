"""Softmax over one axis: ``exp(x - max)`` of each row, divided by its sum."""

import math
from functools import partial

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Generator, Input, Output, Sample, Tensor
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.exact import Exact, exponential, scale_by_exponent, sum_row_pairs, two_product, two_sum


@operation(in_torch="softmax")
class softmax:
    """Softmax of ``x`` over one axis, as ``torch.softmax``: ``exp(x - max) / sum(exp(x - max))``.

    x: float16, bfloat16, float32 or float64, any rank (0-d too, as in torch). Half precision is accumulated in
    float32. ``dtype``: x is converted to it first. Returns a contiguous tensor of x's shape and dtype. A NaN or +inf in
    a row makes all of the row NaN. So does a row that is all -inf.
    """

    x = Input("outer n inner")
    out = Output("outer n inner")
    gradient = "softmax_backward"
    autocast = "float32"
    converts = True

    def reference(x: Tensor) -> Tensor:
        # torch.softmax adds a row up in order. torch.sum adds pairwise, and so is right in float64 too.
        exponentials = (x - x.amax(1, keepdim=True)).exp_()
        return exponentials / exponentials.sum(1, keepdim=True)

    def error(ref: Tensor, x: Tensor, n: int, unit: float) -> Tensor:
        """Return the error that rounding can cause.

        The relative error is at most u * (16 + 4 * d + sqrt(n) / 2). Here d = max - x, and u = 2^-24 (float64: 2^-53).
        The error of exp(-d) grows with d. The square root is the random walk of n additions in order: torch adds up
        any axis but the last like that. The bound does not grow with the magnitude of x.
        """
        depth = (x.amax(1, keepdim=True) - x).clamp_(0, 1100).nan_to_num_(0)
        return depth.mul_(4 * unit).add_(unit * (16 + math.sqrt(n) / 2)).mul_(ref)

    def exact(x: Tensor) -> Exact:
        """Return the result in double-double, with a relative error below 2^-60.

        The exponential's argument is exact as a pair, and pairs are summed in a tree. Because of the scale, results
        that would be subnormal in float64 are exact, too.
        """
        top = x.amax(1, keepdim=True)
        t, t_low = two_sum(x, -top)
        legal = torch.isfinite(t)
        row_is_nan = ~torch.isfinite(top) | torch.isnan(x).any(1, keepdim=True)
        t, t_low = t.where(legal, 0.0), t_low.where(legal, 0.0)
        deep = t < -800.0  # 2^-80 of the smallest subnormal number
        t, t_low = t.where(~deep, 0.0), t_low.where(~deep, 0.0)
        e, e_low, scale = exponential(t, t_low)
        gone = ~legal | deep
        e, e_low = e.where(~gone, 0.0), e_low.where(~gone, 0.0)
        total, total_low = sum_row_pairs(scale_by_exponent(e, scale), scale_by_exponent(e_low, scale))
        quotient = e / total
        product, left = two_product(quotient, total.expand_as(quotient))
        rest = (e - product).sub_(left).add_(e_low).sub_(quotient * total_low).div_(total)
        return quotient.masked_fill(row_is_nan, math.nan), rest, scale

    def sample(x: Tensor, n: int, generator: Generator) -> Tensor:
        """Raise one element of each row, so that its result is about one half at any row length."""
        row, device = (x.size(0), 1, x.size(2)), generator.device
        peak = torch.randint(0, n, row, generator=generator, device=device)
        raised = torch.rand(row, dtype=x.dtype, generator=generator, device=device)
        return x.scatter_(1, peak, math.log(n) + 0.5 + raised)

    def samples() -> tuple[Sample, ...]:
        widths = (39, 79, 263, 781)
        return tuple(Sample(f"float32-equal-terms-{n}", (8, n), partial(rows_of_equal_terms, n)) for n in widths)


def rows_of_equal_terms(width: int) -> Tensor:
    """Return rows of a maximum and many equal terms. A sum in order rounds up each time, by almost half an ulp.
    After 38 such additions, the softmax is outside of its allowed error."""
    x = torch.empty(8, width)
    for row, depth in zip(x, torch.linspace(4.5, 6, 8).tolist(), strict=True):
        near = depth + torch.arange(4096) * 2.0**-21  # neighbours in float32
        units = torch.exp(-near.double()) * 2**23  # in ulp of a sum from 1 up
        row.fill_(-near[(units.frac() - 0.55).abs().argmin()])
        row[0] = 0
    return x
