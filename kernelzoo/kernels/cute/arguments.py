"""What a kernel takes before its constants, which its launch passes as words in this order."""

from typing import Any, NamedTuple

from cutlass import Int64


class Rows(NamedTuple):
    """Elements of a row, rows in all, and rows of a group."""

    n: Any
    total: Any
    inner: Any


class Strides:
    """Of a tensor, in elements: from group to group of rows, along a row, from a row to its neighbour. Compiled in is
    whether elements of a row lie side by side (dense), and whether whole vectors move."""

    def __init__(self, strides, dense, moves):
        self.group, self.n, self.row = strides
        self.dense, self.moves = dense, moves

    def __extract_mlir_values__(self):
        return [stride.ir_value() for stride in (self.group, self.n, self.row)]

    def __new_from_mlir_values__(self, values):
        return Strides(map(Int64, values), self.dense, self.moves)


class Given(NamedTuple):
    """What a kernel takes before its constants: addresses of tensors and of what launches leave each other, and where
    rows lie in the tensors."""

    pointers: Any
    rooms: Any
    rows: Any
    strides: Any

    @property
    def tensors(self):
        """Each tensor's address and its strides."""
        return list(zip(self.pointers, self.strides, strict=True))
