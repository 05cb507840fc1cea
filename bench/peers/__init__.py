"""What the modules of other people's kernels share: see peers.py, which imports them all."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import ResultCopyingLaunch
from kernelzoo.operations import OPERATIONS
from kernelzoo.registry import Launch, require

PACKAGES = {"liger": "liger-kernel cuda-tile quack-kernels", "flaggems": "flag_gems", "tilegym": "tilegym"}
"""What pip calls those whose functions return new results."""


def rows(id: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Canonical tensors without their inner axis: contiguous rows. UnsupportedProblemError if they are none."""
    if tensors[0].size(2) != 1 or not all(tensor.is_contiguous() and tensor.is_cuda for tensor in tensors):
        raise UnsupportedProblemError(id, "it takes the rows of a contiguous matrix on a GPU")
    return tuple(tensor.squeeze(-1) if tensor.dim() > 1 else tensor for tensor in tensors)


def check(id: str, matrix: torch.Tensor, longest: int = 0, vectors: bool = True) -> None:
    """Raise UnsupportedProblemError for float64, and for rows that are longer, or no whole vectors of 16 bytes."""
    if matrix.dtype == torch.float64:
        raise UnsupportedProblemError(id, "it takes no float64")
    if longest and matrix.size(1) > longest:
        raise UnsupportedProblemError(id, f"it takes rows of up to {longest}")
    if vectors and matrix.size(1) * matrix.element_size() % 16:
        raise UnsupportedProblemError(id, "it takes rows of whole vectors of 16 bytes")


def returned(function: Callable[[], Any], *outs: torch.Tensor) -> Launch:
    """A launch of what returns new results, of which the first are the outputs: no clock times their copies."""

    def deliver(results: Any) -> None:
        for out, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=False):
            out.copy_(result.view_as(out))

    return ResultCopyingLaunch(function, deliver)


def as_published(id: str, place: str, call: Callable[..., Any], longest: int = 0, vectors: bool = False) -> None:
    """Register a project's function, ``module:name``, that returns new results.

    ``call`` takes the function, inputs and scalars. The rest is for ``check``.
    """
    backend, op, variant = id.split("/")
    (module, name), count = place.split(":"), len(OPERATIONS[op].outputs)

    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        taken = rows(id, *tensors)
        check(id, taken[0], longest, vectors)
        function = getattr(require(backend, module, f"pip install {PACKAGES[backend]}"), name)
        given = *taken[:-count], *scalars.values()
        return returned(lambda: call(function, *given), *taken[-count:])

    bind.__doc__ = f"{module}.{name}, which returns new results."
    kernelzoo.register(backend, op, variant)(bind)


class Allocating:
    """A stand-in for torch in a launcher's module: its first new tensor of the output's shape and dtype is ``out``."""

    def __init__(self, out: torch.Tensor) -> None:
        self._out = out

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty_like(self, like: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        assert like.shape == self._out.shape and (dtype or like.dtype) == self._out.dtype
        return self._out

    def empty(self, shape: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        if dtype == self._out.dtype and math.prod(shape) == self._out.numel():
            return self._out.view(tuple(shape))
        return torch.empty(shape, dtype=dtype, device=device)


def allocating(module: ModuleType, out: torch.Tensor, call: Launch) -> Launch:
    """Run a launcher of that module with ``out`` for what it allocates."""
    stand_in = Allocating(out)

    def launch() -> None:
        module.torch = stand_in  # type: ignore[attr-defined]
        try:
            call()
        finally:
            module.torch = torch  # type: ignore[attr-defined]

    return launch
