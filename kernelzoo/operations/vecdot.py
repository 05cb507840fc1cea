"""The dot product of two rows, which the gradient of a softmax needs for each row or part."""

import math

from kernelzoo.operations.declared import WIDE, Input, Output, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation


@operation()
class vecdot:
    """Dot product of two tensors along one axis, ``sum(x * y)``, as ``torch.linalg.vecdot``, but in float32 at least.

    x: float16, bfloat16, float32 or float64, any rank. y: of x's shape and dtype. Returns a tensor without that axis,
    in float32, or float64 for float64. If rows are split, the results of their parts add up: a ``vecdot`` with ones
    adds them in order.
    """

    x = Input("outer n inner")
    y = Input("outer n inner")
    total = Output("outer inner", dtype=WIDE)
    domain = dict.fromkeys(("x", "y"), largest_without_overflow(2, 0.5))

    def reference(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum(1)

    def error(x: Tensor, y: Tensor, n: int, unit: float, tiny: float) -> Tensor:
        """Return the random walk of n additions, relative to sum(|x * y|). A subnormal product may count as zero."""
        sizes = (x * y).abs_().sum(1)
        return sizes.mul_(unit * (8 + math.sqrt(n) / 2)).add_(n * tiny).nan_to_num_(0.0, 0.0, 0.0)
