"""NumPy arrays over the memory of tensors on the host, for kernels that run there.

``tensor.numpy()`` is not used, because after it torch never lets the caller resize the storage.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
import torch

from kernelzoo.layout import span


def flat_array(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """Return the memory that x spans as a one-dimensional array of ``dtype`` (of the same width), without a copy.

    The array keeps the tensor alive. If torch later moves the memory, the array still has the old address.
    """
    memory: Any = (ctypes.c_byte * span(x)).from_address(x.data_ptr())
    memory.tensor = x
    return np.frombuffer(memory, _numpy_dtype(dtype))


@cache
def _numpy_dtype(dtype: torch.dtype) -> Any:
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
