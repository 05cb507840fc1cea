"""The sum along axes, as ``torch.sum``."""

from __future__ import annotations

import math
from functools import partial

from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import FLOATS, INTEGERS
from kernelzoo.operations.declared import SUMMED, Input, Output, Sample, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.exact import Exact, sum_row_pairs


@operation(dtypes=FLOATS + INTEGERS, in_torch="sum", several_axes=True)
class sum:
    """Sum of ``x`` along one axis or a tuple of axes (an empty tuple: all of them), as ``torch.sum``.

    dim defaults to the last axis, unlike ``torch.sum``. None means all axes. x: float16, bfloat16, float32, float64,
    bool, uint8 or int8 to int64, any rank. Returns x's dtype, or int64 for integers and bool: these sums wrap around.
    Half precision is accumulated in float32. The error grows with the logarithm of a row's length, as in pairwise
    summation. An empty row has the sum 0.
    """

    x = Input("outer n inner")
    out = Output("outer inner", dtype=SUMMED)
    domain = {"x": largest_without_overflow(1)}
    takes_empty = True
    gradient = "reference"

    def reference(x: Tensor) -> Tensor:
        return x.sum(1)

    def error(ref: Tensor, x: Tensor, n: int, unit: float, tiny: float) -> Tensor | None:
        """Return a pairwise sum's error: two roundings per level and eight more, relative to the sum of |x|.

        A subnormal element may count as zero. Integers are exact.
        """
        if not ref.is_floating_point():
            return None
        sizes = x.abs().sum(1)
        return sizes.mul_(unit * (8 + 2 * math.log2(max(n, 2)))).add_(n * tiny).nan_to_num_(0.0, 0.0, 0.0)

    def exact(x: Tensor) -> Exact:
        """Return the sum in double-double, by pairwise summation."""
        total = x.sum(1)
        high, low = (part[:, 0] for part in sum_row_pairs(x, x.new_zeros(()).expand_as(x)))
        legal = total.isfinite()
        return high.where(legal, total), low.where(legal, 0.0), None

    def samples() -> tuple[Sample, ...]:
        return (
            *(Sample(f"float32-equal-terms-{n}", (8, n), partial(rows_of_equal_terms, n)) for n in (3000, 100003)),
            Sample("float32-cancels", (8, 3001), cancelling_rows),
            Sample("int32-wider-than-int32", (2, 3000), overflowing_rows),
        )


def rows_of_equal_terms(n: int) -> Tensor:
    """Return rows that repeat one number. A running sum rounds in the same direction at almost every step."""
    return torch.linspace(1, 1.9, 8).mul_(1 + 2.0**-23)[:, None].expand(8, n).contiguous()


def cancelling_rows() -> Tensor:
    """Return rows of large terms, their negatives in another order, and a small term."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(8, 1500, generator=generator)
    x = torch.cat((half * 1e6, -half.flip(1) * 1e6, torch.ones(8, 1)), 1)
    return x[:, torch.randperm(3001, generator=generator)]


def overflowing_rows() -> Tensor:
    """Return rows whose sums overflow int32, above and below."""
    return torch.tensor([[2**31 - 1], [-(2**31)]], dtype=torch.int32).expand(2, 3000).contiguous()
