"""Columns: rows that lie side by side in memory, read in vectors of 16 bytes across them.

A block takes ``lanes`` vectors side by side, 128 bytes of neighbouring rows or less, and so many elements down as its
other threads reach. A thread thus has a part of as many rows as a vector has elements. Blocks that share rows are a
cluster (see :mod:`.cluster`).
"""

from math import gcd
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.layout import VECTOR_BYTES, Columns, Rows


def side_by_side(rows: Rows) -> Columns | None:
    """The problem by columns, or None if rows don't lie side by side without a gap."""
    c = rows.columns
    return c if c is not None and c.side_by_side else None


def in_vectors(rows: Rows) -> Columns | None:
    """The problem by columns that whole aligned vectors cover, or None."""
    c = side_by_side(rows)
    return c if c is not None and c.vector > 1 else None


def in_one_piece(rows: Rows) -> Columns | None:
    """Columns that fill one piece of memory from a vector's boundary on, in x and in out; or None."""
    c = rows.columns
    return c if c is not None and c.one_piece and c.aligned else None


def offsets(c: Columns) -> tuple[int, ...]:
    """What a kernel by columns takes after its pointers: groups of rows, neighbours in one, elements of a row, and in x
    and in out the steps from a group to the next and from an element of a row to the next. A minimum, which has one
    element a row, has the step from one row to the next."""
    return c.outer, c.inner, c.n, c.x_outer, c.x_n, c.out_outer, c.out_n or c.out_inner


def in_step(c: Columns, threads: int) -> int:
    """As many of those threads as go round the rows together, as one piece of memory: vectors of 16 bytes that are so
    many apart begin in the same row."""
    return threads // period(c) * period(c)


def period(c: Columns) -> int:
    """The fewest vectors of 16 bytes, in one piece of memory, that hold each row equally often."""
    return c.inner // gcd(c.inner, VECTOR_BYTES // c.itemsize)


@cuda.jit(device=True, inline="always")
def quotient(a, b):
    """Of numbers of 32 bits, since a GPU takes several times as long over those of 64."""
    return types.int64(types.uint32(a) // types.uint32(b))


def cluster_words(in_clusters: bool) -> tuple[Any, Any, Any, Any]:
    """``cluster_arrive``, ``cluster_wait``, ``send``, ``wait_for`` of :mod:`.cluster`, which is for a GPU alone; where
    there are no clusters, nobody calls them."""
    if not in_clusters:
        return None, None, None, None
    from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for

    return cluster_arrive, cluster_wait, send, wait_for
