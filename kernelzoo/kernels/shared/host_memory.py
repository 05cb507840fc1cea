"""The memory of tensors on the host as NumPy's arrays, for kernels that run there.

Not by ``tensor.numpy()``, which forbids for good that the storage is resized, and so would leave a trace on tensors
that are the caller's.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
import torch

from kernelzoo.layout import span


def flat(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """The memory that x spans as a one-dimensional array of ``dtype`` (of the same width), without a copy.

    It keeps the tensor, and not its memory from being moved: made anew, it is where that is then.
    """
    memory: Any = (ctypes.c_byte * span(x)).from_address(x.data_ptr())
    memory.tensor = x
    return np.frombuffer(memory, _in_numpy(dtype))


@cache
def _in_numpy(dtype: torch.dtype) -> Any:
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
