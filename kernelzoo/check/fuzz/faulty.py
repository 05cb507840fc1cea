"""Calls that are wrong in one way each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernelzoo.check.fuzz.case import Case, contiguous, span

if TYPE_CHECKING:
    import torch


def _contiguous_out(op: str, case: Case, x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(case.out_shape(op))


def _within(op: str, case: Case, x: torch.Tensor) -> torch.Tensor:
    """An out that begins where x begins."""
    shape = case.out_shape(op)
    room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    fits = span(shape, contiguous(shape)) <= room
    return x.as_strided(shape, contiguous(shape) if fits else [0] * len(shape), x.storage_offset())


def _upon_itself(op: str, case: Case, x: torch.Tensor) -> object:
    """An out of one element, expanded; none at all where one is right."""
    shape = case.out_shape(op)
    return x.new_empty(1).expand(shape) if math.prod(shape) > 1 else "out"


def _complex(x: torch.Tensor) -> torch.Tensor:
    import torch

    return x.to(torch.complex64)


def _sparse(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.eye(2, device=x.device).to_sparse()


FAULTY: dict[str, Callable[[str, Case, torch.Tensor], dict[str, Any]]] = {
    "an axis out of range": lambda op, case, x: {"dim": max(x.ndim, 1) if case.seed % 2 else -x.ndim - 2},
    "no axis": lambda op, case, x: {"dim": None},
    "half an axis": lambda op, case, x: {"dim": 0.5},
    "an axis twice": lambda op, case, x: {"dim": (0, -max(x.ndim, 1))},
    "another dtype": lambda op, case, x: {"x": _complex(x)},
    "a list": lambda op, case, x: {"x": [1.0, 2.0]},
    "a sparse tensor": lambda op, case, x: {"x": _sparse(x)},
    "a tensor elsewhere": lambda op, case, x: {"x": x.to("meta")},
    "a gradient": lambda op, case, x: {"x": x.detach().requires_grad_()},
    "no such variant": lambda op, case, x: {"variant": "fastest"},
    "out of another shape": lambda op, case, x: {"out": x.new_empty((*x.shape, 2))},
    "out of another dtype": lambda op, case, x: {"out": _complex(_contiguous_out(op, case, x))},
    "out within x": lambda op, case, x: {"out": _within(op, case, x)},
    "out upon itself": lambda op, case, x: {"out": _upon_itself(op, case, x)},
    "out that is none": lambda op, case, x: {"out": [1.0]},
}
"""How each of :data:`kernelzoo.check.fuzz.case.FAULTS` is made: arguments of the call, in place of the right ones."""
