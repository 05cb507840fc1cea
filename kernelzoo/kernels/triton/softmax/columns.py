"""Whole columns, a strip of them to a program, which it holds in registers: one read, one write."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.kernels.triton.softmax.columns_kernel import columns_kernel
from kernelzoo.kernels.triton.softmax.pairs import WRITE
from kernelzoo.kernels.triton.softmax.strips import Strips, strip_arguments, strip_options, strips_or_raise
from kernelzoo.launch import Launch
from kernelzoo.layout import Columns, rows_of
from kernelzoo.registry import register


@register("triton", "softmax", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of whole columns to a program, which it holds in registers."""
    by_columns, strips = strips_or_raise(rows_of(x, out), device_of(x), "triton/softmax/columns")
    if strips.elements < by_columns.n:
        words = f"a program holds {strips.elements} elements of a column; got {by_columns.n}"
        raise UnsupportedProblemError("triton/softmax/columns", words)
    return whole_strips(x, out, by_columns, strips)


def whole_strips(x: torch.Tensor, out: torch.Tensor, columns: Columns, strips: Strips) -> Launch:
    """The launch of these strips, of which programs hold whole columns."""
    device = device_of(x)
    none = (0, 0)  # whole columns leave no pairs, and a launch of x and out alone can be moved to others
    args = strip_arguments(x, out, columns, strips, none, WRITE, device)
    programs, warps = columns.strips(strips.columns), device.warps(strips.threads)
    options = strip_options(strips, device)
    return bound("triton/softmax/columns", x, columns_kernel, programs, args, warps, **options)
