"""Columns: rows that lie side by side in memory, read in vectors of 16 bytes across them.

A block takes ``lanes`` vectors side by side, 128 bytes of neighbouring rows or less, and so many elements down as its
other threads reach. A thread thus has a part of as many rows as a vector has elements.
"""

from numba import cuda
from numba.cuda import types

from kernelzoo.layout import Columns, Rows


def side_by_side(rows: Rows) -> Columns | None:
    """The problem by columns, or None if rows don't lie side by side without a gap."""
    c = rows.columns
    return c if c is not None and c.side_by_side else None


def in_vectors(rows: Rows) -> Columns | None:
    """The problem by columns that whole aligned vectors cover, or None."""
    c = side_by_side(rows)
    return c if c is not None and c.vector > 1 else None


def offsets(c: Columns) -> tuple[int, ...]:
    """What a kernel by columns takes after its pointers: groups of rows, neighbours in one, elements of a row, and in x
    and in out the steps from a group to the next and from an element of a row to the next. A minimum, which has one
    element a row, has the step from one row to the next."""
    return c.outer, c.inner, c.n, c.x_outer, c.x_n, c.out_outer, c.out_n or c.out_inner


@cuda.jit(device=True, inline="always")
def quotient(a, b):
    """Of numbers of 32 bits, since a GPU takes several times as long over those of 64."""
    return types.int64(types.uint32(a) // types.uint32(b))
