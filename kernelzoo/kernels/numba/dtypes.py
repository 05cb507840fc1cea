"""How each dtype is stored, and what it is computed in."""

import numpy as np
import torch
from numba.cuda import types

STORAGE = {
    "float16": types.uint16,  # half precision is moved as bits and converted one by one; see machine/vectors.py
    "bfloat16": types.uint16,
    "float32": types.float32,
    "float64": types.float64,
    "bool": types.uint8,
    "uint8": types.uint8,
    "int8": types.int8,
    "int16": types.int16,
    "int32": types.int32,
    "int64": types.int64,
}
"""What a pointer to elements of the dtype points at."""

WIDE = {
    "float16": types.float32,
    "bfloat16": types.float32,
    "float32": types.float32,
    "float64": types.float64,
    "bool": types.int32,
    "uint8": types.int32,
    "int8": types.int32,
    "int16": types.int32,
    "int32": types.int32,
    "int64": types.int64,
}
"""What the dtype is computed in."""


def computed_in(dtype: str) -> torch.dtype:
    """The same as torch names it, for workspaces."""
    found: torch.dtype = getattr(torch, str(WIDE[dtype]))
    return found


def itemsize(dtype: str) -> int:
    """Bytes of one element in memory."""
    return int(STORAGE[dtype].bitwidth) // 8


def lowest(dtype: str) -> np.generic:
    """The identity of a maximum, in the type that the dtype is computed in."""
    return np.float64(-np.inf) if dtype == "float64" else np.float32(-np.inf)


def highest(dtype: str) -> np.generic:
    """The identity of a minimum, in the type that the dtype is computed in: +inf, or the integer type's greatest."""
    wide = WIDE[dtype]
    if wide == types.float64:
        return np.float64(np.inf)
    if wide == types.float32:
        return np.float32(np.inf)
    return np.int64(np.iinfo(np.int64).max) if wide == types.int64 else np.int32(np.iinfo(np.int32).max)


def one(dtype: str) -> np.generic:
    """1 in the float that the dtype is computed in: a plain 1 would turn float32 into float64."""
    return np.float64(1) if dtype == "float64" else np.float32(1)
