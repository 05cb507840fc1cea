"""The index of the minimum along an axis, as ``torch.argmin``."""

from functools import partial

from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import FLOATS, INTEGERS
from kernelzoo.operations.declared import Input, Output, Sample, Tensor
from kernelzoo.operations.declaring import operation

DTYPES = (*FLOATS, *(dtype for dtype in INTEGERS if dtype != "bool"))
"""The dtypes that torch.argmin takes."""


@operation(dtypes=DTYPES, in_torch="argmin")
class argmin:
    """Index of the least element of ``x`` along one axis, as ``torch.argmin``. Of equal elements, the first counts.

    dim defaults to the last axis, unlike ``torch.argmin``. x: float16, bfloat16, float32, float64, uint8 or int8 to
    int64, any rank. Returns int64. A NaN is less than any number, so the result is the first NaN's index. -0.0 equals
    0.0. Raises EmptyReductionError if the axis is empty.
    """

    x = Input("outer n inner")
    out = Output("outer inner", dtype="int64")
    decisive = -20.0

    def reference(x: Tensor) -> Tensor:
        # The minimum of a row with a NaN is NaN, which equals nothing: then only the NaN are found.
        found = (x == x.amin(1, keepdim=True)) | (x != x)
        places = torch.arange(x.size(1), device=x.device)[:, None]
        return places.where(found, x.size(1)).amin(1)

    def samples() -> tuple[Sample, ...]:
        return tuple(Sample(f"{dtype}-neighbours", (8, 300), partial(neighbouring_values, dtype)) for dtype in DTYPES)


def neighbouring_values(dtype: str) -> Tensor:
    """Return rows of one value, but the next lower value at one index. In narrower arithmetic, the two are equal."""
    kind = getattr(torch, dtype)
    one, step = (1.0, torch.finfo(kind).eps / 2) if kind.is_floating_point else (torch.iinfo(kind).max, 1)
    x = torch.full((8, 300), one, dtype=kind)
    places = torch.randint(300, (8, 1), generator=torch.Generator().manual_seed(0))
    return x.scatter(1, places, x - step)
