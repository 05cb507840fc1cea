"""Memory of tensors: checks for overlap before a kernel writes, and the error for lack of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from kernelzoo.device import make_host_memory_error
from kernelzoo.layout import span
from kernelzoo.lazy import torch


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share a byte. Exact even for interleaved views; True if the search takes too long."""
    if not a.numel() or not b.numel() or a.device != b.device:
        return False
    a_start, b_start = a.data_ptr(), b.data_ptr()
    if a_start + span(a) <= b_start or b_start + span(b) <= a_start:
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    import numpy as np

    try:
        return bool(np.shares_memory(_addresses(a), _addresses(b), max_work=100_000))  # type: ignore[arg-type]  # any number of steps will do
    except (np.exceptions.TooHardError, ValueError):
        return True  # not proved disjoint, and a wrong guess would corrupt the input


def _addresses(x: torch.Tensor) -> object:
    """Return a NumPy array at the tensor's addresses. It must not be read, because they may be on a device."""
    import numpy as np

    class Memory:
        __array_interface__: ClassVar[dict[str, object]] = {
            "version": 3,
            "shape": tuple(x.shape),
            "typestr": f"|V{x.element_size()}",
            "data": (x.data_ptr(), True),
            "strides": tuple(stride * x.element_size() for stride in x.stride()),
        }

    return np.asarray(Memory())


def overlaps_itself(x: torch.Tensor) -> bool:
    """Whether two elements may share an address. Exact for sliced and stepped tensors; others may give a wrong True."""
    if x.is_contiguous():
        return False
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def count_distinct_elements(x: torch.Tensor) -> int:
    return math.prod(size for size, stride in zip(x.shape, x.stride(), strict=True) if stride) if x.numel() else 0


def allocation_error(outs: Sequence[tuple[tuple[int, ...], torch.dtype]], error: RuntimeError) -> Exception:
    """Return the error to raise if outputs of these shapes and dtypes could not be allocated."""
    if "can't allocate memory" not in str(error):
        return error
    return make_host_memory_error("the result", sum(math.prod(shape) * dtype.itemsize for shape, dtype in outs))
