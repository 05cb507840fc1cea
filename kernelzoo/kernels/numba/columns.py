"""Columns: rows that lie side by side in memory, read in vectors of 16 bytes across them.

A block takes ``lanes`` vectors side by side, 128 bytes of neighbouring rows or less, and so many elements down as its
other threads reach. A thread thus has a part of as many rows as a vector has elements. Blocks that share rows are a
cluster (see :mod:`.cluster`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.dtypes import itemsize
from kernelzoo.kernels.numba.view import VECTOR_BYTES, View

OFFSETS = 9
"""Integers that a kernel by columns takes: those of ``Columns.offsets``, then the blocks that share rows, and how many
elements each of them has."""


@dataclass(frozen=True)
class Columns:
    """Rows that lie side by side without a gap: row r is number ``r % neighbours`` of group ``r // neighbours``."""

    groups: int
    neighbours: int
    n: int
    x_group: int
    x_step: int
    out_group: int
    out_step: int
    """From one element of a row to the next; of a minimum, which has one a row, from one row to the next."""
    vec: int

    @property
    def offsets(self) -> tuple[int, ...]:
        return self.groups, self.neighbours, self.n, self.x_group, self.x_step, self.out_group, self.out_step

    def tiles(self, lanes: int) -> int:
        """Blocks, or clusters, that it takes to cover the rows."""
        return self.groups * -(-self.neighbours // (lanes * self.vec))

    def in_step(self, threads: int) -> int:
        """As many of those threads as go round the rows together, as one piece of memory: vectors that are so many
        apart begin in the same row."""
        period = self.neighbours // gcd(self.neighbours, self.vec)
        return threads // period * period


def columns(v: View) -> Columns | None:
    """The view as columns that whole aligned vectors cover, or None if it isn't one."""
    c = single_columns(v)
    if c is None:
        return None
    vec = VECTOR_BYTES // itemsize(v.dtype)
    written = (v.out_step, c.out_group, v.out_phase) if v.out_step else ()  # in vectors, but for a minimum
    if any(offset % vec for offset in (v.neighbours, v.x_step, c.x_group, v.phase, *written)):
        return None
    return replace(c, vec=vec)


def single_columns(v: View) -> Columns | None:
    """The view as columns whose elements are read one by one, or None if rows don't lie side by side without a gap."""
    if not v.across:
        return None
    if v.inner > 1:
        groups, x_group, out_group = v.rows // v.inner, v.x_outer, v.out_outer
        steps = v.x_inner, v.out_inner
    else:
        groups, x_group, out_group = 1, 0, 0
        steps = v.x_outer, v.out_outer
    if steps[0] != 1 or (v.out_step and steps[1] != 1):
        return None
    return Columns(groups, v.neighbours, v.n, x_group, v.x_step, out_group, v.out_step or steps[1], 1)


def flat_columns(v: View) -> Columns | None:
    """Columns that fill one piece of memory from a vector's boundary on, in x and in out; or None."""
    c = single_columns(v)
    if c is None or c.groups > 1 or c.x_step != c.neighbours or v.phase:
        return None
    if v.out_step and (c.out_step != c.neighbours or v.out_phase):
        return None
    return replace(c, vec=VECTOR_BYTES // itemsize(v.dtype))


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
