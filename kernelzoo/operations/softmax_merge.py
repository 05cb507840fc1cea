"""The (max, sum) state of a row, merged from those of its parts."""

import math

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Generator, Input, Output, Tensor
from kernelzoo.operations.declaring import operation


@operation(dtypes=("float32", "float64"))
class softmax_merge:
    """Merge (max, sum) states along one axis: the largest ``maximum``, and ``sum(total * exp(maximum - largest))``.

    maximum: float32 or float64, any rank. total: of maximum's shape and dtype, finite or NaN; see ``softmax_pairs``.
    Returns two tensors without that axis. A part whose maximum is -inf counts as ``total * 0``. A NaN in either, or a
    maximum of +inf, makes both outputs NaN. The same order of parts gives the same bits.
    """

    maximum = Input("outer n inner")
    total = Input("outer n inner")
    largest = Output("outer inner")
    sum = Output("outer inner")
    domain = {"total": lambda dtype, n: dtype.max / max(n, 1)}
    finite = ("total",)

    def reference(maximum: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        top = maximum.amax(1, keepdim=True)
        half = ((maximum - top) / 2).exp_()  # exp(distance) may underflow where the term does not
        terms = (total * half * half).where(maximum != -math.inf, total * 0).sum(1)
        return top[:, 0].masked_fill(terms.isnan(), math.nan), terms

    def error(
        ref: tuple[Tensor, ...], maximum: Tensor, total: Tensor, n: int, unit: float, tiny: float
    ) -> tuple[Tensor, Tensor]:
        """Return 0 for the maximum. A term of the sum has the errors of a product and exp(-d), which grows with d."""
        depth = (maximum.amax(1, keepdim=True) - maximum).clamp_(0, 2200).nan_to_num_(0)
        half = (depth / -2).exp_()
        sizes = total.abs() * half * half
        allowed = (sizes * depth.mul_(4).add_(16 + math.sqrt(n) / 2)).sum(1).mul_(unit).add_(n * tiny)
        return ref[0].new_zeros(()).expand_as(ref[0]), allowed.nan_to_num_(0.0)

    def others(maximum: Tensor, n: int, generator: Generator) -> tuple[Tensor]:
        """Return the other input: random totals of 1 and more."""
        drawn = torch.rand(maximum.shape, generator=generator, device=generator.device)
        return (1 + 100 * drawn.to(maximum.device),)
