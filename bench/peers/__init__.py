"""What the modules of other people's kernels share: see peers.py, which imports them all."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch


def rows(id: str, x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A canonical problem as a contiguous matrix and its result; UnsupportedProblemError if it is none."""
    if x.size(2) != 1 or not x.is_contiguous() or not out.is_contiguous() or not x.is_cuda:
        raise UnsupportedProblemError(id, "it takes the rows of a contiguous matrix on a GPU")
    return x.squeeze(2), out.squeeze(-1)


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
