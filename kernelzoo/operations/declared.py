"""What the class of an operation is made of: inputs, scalars, outputs, samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

ROW = ("outer", "n", "inner")
"""The axes of a tensor that an operation takes by rows. ``n`` is the axis of a row; ``outer`` and ``inner`` stand for
any number of axes before it and after it, so that a caller names the axis by ``dim``."""

WIDE = "wide"
"""As the dtype of an input or an output: float32, or float64 where the first input has that."""

Size: TypeAlias = "int | str"
"""A number, or the name of an axis or a scalar whose value it is."""


@dataclass(frozen=True)
class Input:
    """A tensor that an operation reads.

    ``axes``: names, separated by blanks. If those of the first input are ``"outer n inner"``, the operation is one by
    rows: it takes tensors of any rank and an axis ``dim``, and the other tensors have ``"outer n inner"`` (the same
    shape), ``"outer inner"`` (one element a row), ``"n"`` or ``""`` (one element). Otherwise each name is one axis.

    ``dtype``: one name, or several that are allowed; "" for the dtype of the first input, "wide" for float32, of
    float64 float64.

    ``low``, ``high``: integers are drawn from low up to, not including, high. ``also``: values that are drawn now and
    then besides. Each is a number, or the name of an axis or a scalar.
    """

    axes: str
    dtype: str | tuple[str, ...] = ""
    low: Size | None = None
    high: Size | None = None
    also: tuple[Size | float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.axes.split())


@dataclass(frozen=True)
class Scalar:
    """A number that an operation takes, with its default, and other values that checks try."""

    default: Any
    also: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Output:
    """A tensor that an operation writes.

    ``axes``: as for :class:`Input`. ``dtype``: a name, "wide", or an input's name, whose dtype it has; "" for the first
    one's.
    ``inplace``: the name of an input that a caller may pass as ``out`` as well.
    """

    axes: str
    dtype: str = ""
    inplace: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.axes.split())


@dataclass(frozen=True)
class Sample:
    """Inputs that one operation alone is to be tried on, beside those that all are."""

    name: str
    """Begins with the dtype of the first input."""
    shape: tuple[int, ...]
    """Of the first input."""
    make: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]] = field(repr=False)
    """Makes them on the CPU, the same each time."""
