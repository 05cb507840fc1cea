"""Rows quantised to 8-bit floating point: values, and a scale for each row."""

from functools import partial

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Input, Output, Sample, Tensor
from kernelzoo.operations.declaring import operation

DTYPES = ("float16", "bfloat16", "float32")

TOP = 448.0
"""The largest float8_e4m3fn."""

LEAST = TOP * 2.0**-126
"""A row with a smaller maximum is not scaled. With this maximum, the scale is the smallest normal float32."""


@operation(dtypes=DTYPES)
class quantize_rows:
    """Each row of ``x`` along one axis as float8_e4m3fn values and a float32 scale: x is about ``values * scale``.

    scale is the row's absolute maximum divided by 448, the largest float8_e4m3fn. values are ``x / scale``, rounded to
    nearest, ties to even. Both divisions are in float32. A kernel may round them otherwise, such as by a product with
    the reciprocal. x: float16, bfloat16 or float32, any rank. Returns (values, scale), contiguous: float8_e4m3fn of
    x's shape, and float32 without the axis ``dim``.

    A row whose absolute maximum is below 448 * 2^-126 has the scale 1. A row with a NaN has the scale NaN, and
    all its values are NaN. Any other row with an infinity has the scale inf: its values are NaN at infinities, else 0.
    """

    x = Input("outer n inner")
    values = Output("outer n inner", dtype="float8_e4m3fn")
    scale = Output("outer inner", dtype="float32")

    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        if not x.size(1):
            return x, x.new_ones((x.size(0), x.size(2)))
        top = x.abs().amax(1)
        scale = torch.where(top < LEAST, 1, top / TOP)
        return (x / scale[:, None]).clamp(-TOP, TOP).to(torch.float8_e4m3fn).to(x.dtype), scale

    def error(ref: tuple[Tensor, Tensor], x: Tensor, unit: float, tiny: float) -> tuple[Tensor, Tensor]:
        """Return how much a float8 value may change because float32 rounds the quotient. That matters near a tie.

        A quotient by a power of two is exact. A subnormal element may count as zero.
        """
        values, scale = ref
        quotient, inexact = (x / scale[:, None]).abs(), torch.frexp(scale)[0] != 0.5
        slack = quotient * (inexact[:, None] * 4 * unit) + (x.abs() < tiny) * quotient
        ends = ((quotient + by).clamp(0, TOP).to(torch.float8_e4m3fn).to(x.dtype) for by in (-slack, slack))
        off = torch.stack([(end - values.abs()).abs() for end in ends]).amax(0)
        return off.nan_to_num_(0.0, 0.0, 0.0), (2 * unit * scale).nan_to_num_(0.0, 0.0, 0.0)

    def samples() -> tuple[Sample, ...]:
        return tuple(Sample(f"{dtype}-ties", (8, 255), partial(rounding_ties, dtype)) for dtype in DTYPES)


def rounding_ties(dtype: str) -> Tensor:
    """Return rows of numbers halfway between two float8_e4m3fn, also subnormal ones. Their scales are powers of two."""
    normal = torch.arange(17, 32, 2.0) * 2.0 ** torch.arange(-10, 5)[:, None]
    halfway = torch.cat((torch.arange(1, 16, 2) * 2.0**-10, normal[normal < TOP]))
    row = torch.cat((halfway, -halfway, torch.tensor([TOP])))
    return (row * 2.0 ** torch.arange(-4, 4)[:, None]).to(getattr(torch, dtype))
