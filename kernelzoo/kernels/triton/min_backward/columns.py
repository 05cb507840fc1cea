"""Whole columns, a strip of them to a program, which it holds in registers, or, if they are long, reads twice."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.triton.min_backward.columns_kernel import launch_of_columns
from kernelzoo.kernels.triton.softmax.pairs import WRITE
from kernelzoo.kernels.triton.strips import whole_strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

WHOLE = 2
"""Whole columns are held as if there were two inputs: of twice as many an SM has one program."""


@register("triton", "min_backward", "columns")
def columns(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of whole columns to a program, which it holds in registers; longer ones it reads twice, in blocks."""
    across = rows_of(x, out).columns
    if across is None:
        words = "it takes columns, and the rows of this problem don't lie across memory"
        raise UnsupportedProblemError("triton/min_backward/columns", words)
    strip = whole_strip(across, device_of(x), WHOLE)
    return launch_of_columns("triton/min_backward/columns", (x, y, grad, out), across, strip, WRITE)
