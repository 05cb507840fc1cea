"""What each operation means, once: what it takes, its canonical form, its reference, its tolerance, its bytes.

An operation is a class under :func:`operation`, in a file of its own here, or in anybody's module. Everything that
checks, times or shows an implementation asks the :class:`Operation` that the decorator makes of it. Nothing here knows
how a kernel computes.
"""

from __future__ import annotations

from kernelzoo.operations.arguments import (
    FLOATS,
    INTEGERS,
    Arguments,
    Dims,
    axes_of,
    check_tensor,
    dtype_name,
    full_dtype,
)
from kernelzoo.operations.declared import Input, Output, Sample, Scalar
from kernelzoo.operations.declaring import declared, on_declared, operation
from kernelzoo.operations.expected import Bounds, Expected
from kernelzoo.operations.known import BUILT_IN, MAPPED, OPERATIONS
from kernelzoo.operations.meaning import Operation

__all__ = [
    "BUILT_IN",
    "FLOATS",
    "INTEGERS",
    "MAPPED",
    "OPERATIONS",
    "Arguments",
    "Bounds",
    "Dims",
    "Expected",
    "Input",
    "Operation",
    "Output",
    "Sample",
    "Scalar",
    "axes_of",
    "check_tensor",
    "declared",
    "dtype_name",
    "full_dtype",
    "on_declared",
    "operation",
]
