"""A problem as a kernel sees it: rows, offsets between them, and how widely they can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from kernelzoo.kernels.numba.dtypes import itemsize
from kernelzoo.kernels.numba.launch import SIMULATED
from kernelzoo.ops import attached, dtype_name
from kernelzoo.registry import Launch
from kernelzoo.tables import noting, of

VECTOR_BYTES = 16  # the widest load and store of one instruction


@dataclass(frozen=True)
class View:
    """Row r of x begins at element ``r // inner * x_outer + r % inner * x_inner``, its elements ``x_step`` apart;
    likewise in out."""

    dtype: str
    rows: int
    inner: int
    n: int
    x_outer: int
    x_step: int
    x_inner: int
    out_outer: int
    out_step: int
    out_inner: int
    phase: int
    """Elements by which x begins past a boundary of 16 bytes."""
    out_phase: int
    """And out."""
    across: bool
    """Whether neighbouring rows, and not neighbouring elements of a row, are neighbours in memory."""
    vec: int
    """Elements that can be moved at once along a row, a power of two."""
    edges: bool
    """Whether some row begins or ends off a boundary of ``vec`` elements."""

    @property
    def neighbours(self) -> int:
        """Rows that follow each other at one stride."""
        return self.inner if self.inner > 1 else self.rows

    @property
    def one_piece(self) -> bool:
        """Whether the rows follow each other without a gap, in x and in out."""
        along = self.x_step == 1 and self.inner == 1 and self.x_outer == self.n
        return along and self.out_outer == (self.n if self.out_step else 1)

    @property
    def offsets(self) -> tuple[int, ...]:
        """What every kernel takes after its pointers."""
        return (
            *(self.rows, self.inner, self.n),
            *(self.x_outer, self.x_step, self.x_inner),
            *(self.out_outer, self.out_step, self.out_inner),
            self.phase,
        )


def view(x: torch.Tensor, out: torch.Tensor) -> View:
    """See canonical ``(x, out)`` as rows; ``out`` of a minimum has no step along a row."""
    outer, n, inner = x.shape
    x_outer, x_step, x_inner = x.stride()
    if out.ndim == 3:
        out_outer, out_step, out_inner = out.stride()
    else:
        (out_outer, out_inner), out_step = out.stride(), 0
    if outer == 1 or (x_outer == inner * x_inner and out_outer == inner * out_inner):
        outer, x_outer, out_outer = outer * inner, x_inner, out_inner
        inner = 1  # one stride says it all, and saves the kernels a division
    if inner == 1:
        x_inner = out_inner = 0
    if outer == 1:
        x_outer = out_outer = 0
    dtype = dtype_name(x.dtype)
    size = itemsize(dtype)
    widest = VECTOR_BYTES // size
    phase, out_phase = x.data_ptr() // size % widest, out.data_ptr() // size % widest
    neighbour = x_inner if inner > 1 else x_outer
    rows = outer * inner
    across = rows > 1 and n > 1 and x_step != 1 and 0 < neighbour < x_step
    vec, edges = 1, False
    if x_step == 1 and n > 1 and (out.ndim == 2 or out_step == 1):
        vec = widest
        if out.ndim == 3:
            apart = (phase - out_phase) | (x_outer - out_outer) | (x_inner - out_inner)
            while apart % vec:
                vec //= 2
        edges = (phase | n | x_outer | x_inner) % vec != 0
    return View(
        *(dtype, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, out_phase),
        *(across, vec, edges),
    )


BindView = Callable[..., Launch]
"""Takes tensors ``(x, out)`` of the looks it was made for, and returns a launch."""

Plan = Callable[[View, torch.device, Any], BindView]
"""All that a variant decides by the look of a problem and the knobs of its operation: compiles what it needs, and
returns what binds such tensors."""


def planned(plan: Plan, table: type[Any], x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Bind ``(x, out)`` by a plan, which is made once for all problems that look the same, and kept."""
    index = -1 if SIMULATED else x.device.index or 0  # a described device, whose tensors have none, is the first
    knobs = of(table, index)
    if noting.get() is not None:
        return plan(view(x, out), x.device, knobs)(x, out)
    key = (plan, knobs, x.dtype, x.device, x.shape, x.stride(), out.stride(), x.data_ptr() % 16, out.data_ptr() % 16)
    bind = _plans.get(key)
    if bind is None:
        # One at a time: the functions that a kernel is made of enter tables of Numba's, which its compiler reads.
        with _lock, nullcontext() if SIMULATED else attached(x.device.index or 0):
            bind = _plans.get(key)
            if bind is None:
                if len(_plans) >= PLANS:
                    _plans.clear()
                bind = _plans[key] = plan(view(x, out), x.device, knobs)
    return bind(x, out)


_lock = threading.RLock()
PLANS = 4096  # kept at most; some hundred bytes each
_plans: dict[tuple[object, ...], BindView] = {}


def power_of_two(n: int) -> int:
    """The smallest power of two that is n or more."""
    return 1 << max(n - 1, 0).bit_length()
