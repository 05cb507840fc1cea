"""The parts of an operation's class: inputs, scalars, outputs, samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kernelzoo.lazy import torch
from kernelzoo.operations.limits import parse_axes

Tensor: TypeAlias = "torch.Tensor"
Generator: TypeAlias = "torch.Generator"
Finfo: TypeAlias = "torch.finfo"
Dtype: TypeAlias = "torch.dtype"
"""These are types for annotations in an operation's module, which imports no torch."""

ROW = ("outer", "n", "inner")
"""The axes of a tensor of an operation by rows. ``n`` is the axis ``dim`` of a call; ``outer`` and ``inner`` stand for
the axes before and after it."""

WIDE = "wide"
"""A dtype that means float32, or float64 if the first input is float64."""

SUMMED = "summed"
"""A dtype that means int64 if the first input has integers or bool, else its dtype, as for torch.sum."""

_SHORT = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
}


def expand_dtype_name(name: str) -> str:
    """Return the full name of a dtype, which may be abbreviated.

    >>> expand_dtype_name("fp16"), expand_dtype_name("torch.float32"), expand_dtype_name("int8")
    ('float16', 'float32', 'int8')
    """
    plain = name.removeprefix("torch.")
    return _SHORT.get(plain, plain)


def largest_without_overflow(factors: int, scale: float = 1.0, *, summed: bool = True) -> Callable[[Finfo, int], float]:
    """Return a function for ``domain``. It returns the largest input for which a sum of n products can't overflow.

    ``factors``: how many inputs a product multiplies, in float32, or float64 for float64. ``scale`` multiplies the
    limit. Unless ``summed``, the limit is for one product.
    """
    root = {1: float, 2: math.sqrt, 3: math.cbrt}[factors]

    def largest(dtype: Finfo, n: int) -> float:
        widest = max(dtype.max, 3.4028234663852886e38)
        return root(widest / (max(n, 1) if summed else 1)) * scale

    return largest


Size: TypeAlias = "int | str"
"""A number, or the name of an axis or scalar with that value."""


@dataclass(frozen=True)
class _DeclaredTensor:
    axes: str

    def __post_init__(self) -> None:
        parse_axes(self.axes)  # raises

    @property
    def names(self) -> tuple[str, ...]:
        return parse_axes(self.axes)[0]


@dataclass(frozen=True)
class Input(_DeclaredTensor):
    """A tensor that an operation reads.

    ``axes``: names, separated by blanks. If the first input has ``"outer n inner"``, the operation is by rows: it takes
    any rank and an axis ``dim``. Its other tensors then have ``"outer n inner"`` (the same shape), ``"outer inner"``
    (one element per row), ``"n"`` or ``""`` (one element). Otherwise each name is one axis. Any tensor may
    declare bounds for an axis: ``"M N>=4"``, ``"N<=1024"``, ``"N%8==0"``, ``"N>=8,<=1024,%8==0"``.

    ``dtype``: one name, or several that are allowed. "" is the dtype of the first input. "wide" is float32, or float64
    for float64.

    ``low``, ``high``: random integers from ``low`` to ``high - 1``. ``also``: further values, drawn occasionally. Each
    is a number, or the name of an axis or scalar. ``checked``: on the host, any other integer raises RangeError.
    """

    dtype: str | tuple[str, ...] = ""
    low: Size | None = None
    high: Size | None = None
    also: tuple[Size | float, ...] = ()
    checked: bool = False


@dataclass(frozen=True)
class Scalar:
    """A number that an operation takes: its default, and other values for checks to try."""

    default: Any
    also: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Output(_DeclaredTensor):
    """A tensor that an operation writes.

    ``axes``: as for :class:`Input`. ``dtype``: a name, or the name of an input that has it. "" is the dtype of the
    first input. "summed" is int64 for integers and bool, else the same. "wide": as for Input. ``inplace``: the name of
    an input that a caller may also pass as ``out``.
    """

    dtype: str = ""
    inplace: str = ""


@dataclass(frozen=True)
class Sample:
    """Inputs to try on one operation, in addition to those for all operations."""

    name: str
    """The name, which begins with the dtype of the first input."""
    shape: tuple[int, ...]
    """The shape of the first input."""
    make: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]] = field(repr=False)
    """A function that makes the inputs on the CPU, the same each time."""
