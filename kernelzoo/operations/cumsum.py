"""Running sums along an axis, as ``torch.cumsum``."""

from __future__ import annotations

import math

from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import FLOATS, INTEGERS
from kernelzoo.operations.declared import SUMMED, Input, Output, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.exact import Exact, two_sum
from kernelzoo.operations.sum import sum as summed


@operation(dtypes=FLOATS + INTEGERS, in_torch="cumsum")
class cumsum:
    """Running sums of ``x`` along one axis, each of an element and all before it, as ``torch.cumsum``.

    dim defaults to the last axis. x: float16, bfloat16, float32, float64, bool, uint8 or int8 to int64, any rank.
    Returns a contiguous tensor of x's shape. Its dtype is x's, or int64 for integers and bool: these sums wrap around.
    Half precision is accumulated in float32. From a NaN on, a row's sums are NaN.

    A kernel adds elements in order, or blocks whose sums it adds in order; its docstring says which. The error is at
    most that of adding in order: one rounding per running sum.
    """

    x = Input("outer n inner")
    out = Output("outer n inner", dtype=SUMMED)
    domain = {"x": largest_without_overflow(1)}
    gradient = "reference"
    samples = summed.samples

    def reference(x: Tensor) -> Tensor:
        return x.cumsum(1)

    def error(ref: Tensor, x: Tensor, unit: float, tiny: float) -> Tensor | None:
        """Return one rounding per running sum, plus the roundings of a tree of additions.

        Each rounding is relative to the rounded value. A subnormal element may count as zero. Integers are exact.
        """
        if not ref.is_floating_point():
            return None
        count = torch.arange(1, x.size(1) + 1, dtype=ref.dtype, device=x.device)[:, None]
        tree = count.log2().mul_(2).add_(8)
        # Multiply by unit first: sums of sums of the largest float64 would be infinite.
        rounded = x.abs().mul_(unit).cumsum(1).mul_(tree).add_(ref.abs().mul_(unit).cumsum(1))
        return rounded.add_(count * tiny).nan_to_num_(0.0, 0.0, 0.0)

    def exact(x: Tensor, n: int) -> Exact:
        """Return the sums in double-double, by a parallel scan (Hillis and Steele, CACM 29, 1986)."""
        total = x.cumsum(1)
        high, low = x.clone(), x.new_zeros(()).expand_as(x).clone()
        for step in (2**i for i in range(math.ceil(math.log2(max(n, 1))))):
            sums, rest = two_sum(high[:, step:], high[:, :-step])
            low[:, step:] = low[:, step:] + low[:, :-step] + rest
            high[:, step:] = sums
        high, low = two_sum(high, low)
        legal = total.isfinite()
        return high.where(legal, total), low.where(legal, 0.0), None
