"""What each operation means, defined once: inputs, canonical form, reference, tolerance and bytes moved.

An operation is a class decorated with :func:`operation`, in a file here or in a user's module. The decorator makes an
:class:`Operation`, which every check, benchmark and report asks. Nothing here knows how a kernel computes.
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
from kernelzoo.operations.known import BUILT_IN, CALLED, MAPPED, OPERATIONS
from kernelzoo.operations.meaning import Operation

__all__ = [
    "BUILT_IN",
    "CALLED",
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
