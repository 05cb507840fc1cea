"""The storage type and the accumulator type of each dtype."""

from typing import Any

import numpy as np
import torch
from numba.cuda import types

STORAGE = {
    **{name: getattr(types, name) for name in ("uint8", "int8", "int16", "int32", "int64", "float32", "float64")},
    **dict.fromkeys(("float16", "bfloat16"), types.uint16),  # moved as bits, and converted one by one
    "bool": types.uint8,
}
"""The type of a dtype's elements in memory."""

WIDE = {
    **dict.fromkeys(("float16", "bfloat16", "float32"), types.float32),
    **dict.fromkeys(("bool", "uint8", "int8", "int16", "int32"), types.int32),
    "float64": types.float64,
    "int64": types.int64,
}
"""The accumulator type of a dtype."""


def torch_acc_dtype(dtype: str) -> torch.dtype:
    """Return the accumulator type of a dtype as a torch dtype, for workspaces."""
    found: torch.dtype = getattr(torch, str(WIDE[dtype]))
    return found


def itemsize(dtype: str) -> int:
    """Return the number of bytes per element in memory."""
    return int(STORAGE[dtype].bitwidth) // 8


def is_packed(dtype: str, width: int) -> bool:
    """Whether vectors of ``width`` elements stay packed in registers: two halves per 32-bit word, as in memory."""
    return dtype in ("float16", "bfloat16") and width > 1


def register_type(dtype: str, width: int) -> Any:
    """Return the type of a register: a word of two packed halves (:func:`is_packed`), or the accumulator type."""
    return types.uint32 if is_packed(dtype, width) else WIDE[dtype]


def constant(dtype: str, value: float) -> Any:
    """Return a number in the dtype's accumulator type. A plain Python 1 would turn float32 into float64."""
    return np.dtype(str(WIDE[dtype])).type(value)


def highest(dtype: str) -> Any:
    """Return the identity of a minimum in the accumulator type: +inf, or the largest integer."""
    wide = np.dtype(str(WIDE[dtype]))
    return wide.type(np.inf) if wide.kind == "f" else wide.type(np.iinfo(wide).max)


def identity_word(dtype: str, width: int, identity: Any) -> Any:
    if not is_packed(dtype, width):
        return identity
    wide = np.float32(identity)
    half = int(wide.astype(np.float16).view(np.uint16)) if dtype == "float16" else int(wide.view(np.uint32)) >> 16
    return np.uint32(half << 16 | half)
