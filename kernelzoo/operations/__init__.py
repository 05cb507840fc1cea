"""The definition of each operation, in one place: inputs, canonical form, reference, tolerance and bytes moved.

An operation is a class decorated with :func:`operation`, in a file here or in a user's module. The decorator makes an
:class:`Operation`, which every check, benchmark and report uses. Nothing here depends on how a kernel computes.
"""

from __future__ import annotations

from kernelzoo.layout import dtype_name
from kernelzoo.operations.arguments import FLOATS, INTEGERS, Arguments, Dims, axes_of
from kernelzoo.operations.declared import Input, Output, Sample, Scalar, expand_dtype_name
from kernelzoo.operations.declaring import declared, on_declared, operation
from kernelzoo.operations.expected import Bounds, Expected
from kernelzoo.operations.known import BUILT_IN, CALLED, MAPPED, OPERATIONS
from kernelzoo.operations.meaning import Operation
from kernelzoo.operations.tensors import check_tensor

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
    "expand_dtype_name",
    "on_declared",
    "operation",
]
