"""Columns of several tensors at once: how widely they can be read, and how blocks share them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelzoo.kernels.numba.words import WARP
from kernelzoo.layout import cdiv

if TYPE_CHECKING:
    from kernelzoo.device import Device
    from kernelzoo.kernels.numba.launch import View
    from kernelzoo.layout import Columns, Strides


def beside(v: View) -> tuple[tuple[int, int, int], ...]:
    """Of the tensors between x and out, by columns: the steps from a group to the next, along a column, and from a
    column to the next."""
    if v.inner > 1:
        return tuple((other.outer, other.n, other.inner) for other in v.others)
    return tuple((0, other.n, other.outer) for other in v.others)


def vector_of(c: Columns, others: tuple[Strides, ...], strides: tuple[tuple[int, int, int], ...]) -> int:
    """Columns that a vector of 16 bytes holds, if all these tensors can be read and written in such; or 1."""
    vec = c.vector
    for other, (group, step, column) in zip(others, strides, strict=True):
        if column != 1 or (other.phase | group | step) % vec:
            return 1
    return vec


def strips_of(c: Columns, vec: int, deep: int, most: int, device: Device) -> tuple[int, int, int, bool]:
    """``(lanes, tiles, threads, held)``: vectors side by side, 128 bytes or, where that holds longer columns in the
    registers of a block, down to 32; ``deep`` vectors to a thread then, half as many at once of columns that are longer
    still. Those have narrow strips where wide ones would leave SMs idle."""
    wide = min(WARP, max(1, 128 // (vec * c.itemsize)))
    if vec == 1:
        wide, deep = WARP, 2 * deep
    for lanes in (wide, wide // 2, wide // 4):
        if c.n <= most // lanes * deep:
            tiles = deep if c.n > most // lanes * deep // 4 else max(1, deep // 2)
            return lanes, tiles, cdiv(cdiv(c.n, tiles) * lanes, WARP) * WARP, True
    lanes = wide
    while lanes > wide // 4 and c.strips(lanes * vec) < device.multiprocessors:
        lanes //= 2
    return lanes, deep // 2, most, False
