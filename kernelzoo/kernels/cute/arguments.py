"""The arguments of a kernel that come before its constants. A launch passes them as words, in this order."""

from typing import Any, NamedTuple

from cutlass import Int64


class RowCounts(NamedTuple):
    """The numbers of elements per row, of all rows, and of rows per group. Rows of a group are at equal distances."""

    n: Any
    total: Any
    inner: Any


class Strides:
    """A tensor's strides in elements: between groups of rows, along a row, and between rows of a group. Two constants
    are compiled in: ``dense`` (rows are contiguous) and ``vectorized`` (rows are read and written by vectors)."""

    def __init__(self, strides, dense, vectorized):
        self.group, self.n, self.row = strides
        self.dense, self.vectorized = dense, vectorized

    def __extract_mlir_values__(self):
        return [stride.ir_value() for stride in (self.group, self.n, self.row)]

    def __new_from_mlir_values__(self, values):
        return Strides(map(Int64, values), self.dense, self.vectorized)


class KernelArguments(NamedTuple):
    """A kernel's arguments before the constants: addresses of tensors (``pointers``) and workspaces (``rooms``), the
    numbers of rows and elements, and the tensors' strides."""

    pointers: Any
    rooms: Any
    rows: Any
    strides: Any

    @property
    def tensors(self):
        """(address, strides) of each tensor."""
        return list(zip(self.pointers, self.strides, strict=True))
