"""The minimum along axes, as ``torch.amin``: a NaN counts as less than everything."""

from kernelzoo.operations.arguments import FLOATS, INTEGERS
from kernelzoo.operations.declared import Input, Output, Tensor
from kernelzoo.operations.declaring import operation


@operation(dtypes=FLOATS + INTEGERS, in_torch="amin", several_axes=True)
class min:
    """Minimum of ``x`` along one axis or a tuple of axes (an empty tuple: all of them), as ``torch.amin``.

    dim defaults to the last axis, unlike ``torch.amin``. None means all axes. x: float16, bfloat16, float32, float64,
    bool, uint8 or int8 to int64, any rank. Returns the values, but no indices, in x's dtype. A NaN among the reduced
    elements gives NaN. Raises EmptyReductionError if the reduced axis is empty.
    """

    x = Input("outer n inner")
    out = Output("outer inner")
    gradient = "min_backward"
    decisive = -20.0

    def reference(x: Tensor) -> Tensor:
        return x.amin(1)  # exact in any dtype
