"""Operations as modules of ``torch.nn``."""

from __future__ import annotations

import torch

from kernelzoo.calls import backend as backends
from kernelzoo.calls import torch_library as torch_library  # it defines torch.ops.kernelzoo

__all__ = ["Softmax", "torch_library"]


class Softmax(torch.nn.Module):
    """Softmax along one axis, as ``torch.nn.Softmax``.

    dim: the axis. backend: its name; None takes the best one for the input's device. variant: a form of the backend.
    batch_invariant: as in :meth:`kernelzoo.Backend.softmax`.
    Input and output: float16, bfloat16, float32 or float64, of one shape. Gradients run on the same backend.

    Errors: those of :meth:`kernelzoo.Backend.softmax`, at the first call.

    >>> import torch, kernelzoo.nn
    >>> kernelzoo.nn.Softmax(dim=1, backend="torch")(torch.zeros(1, 2))
    tensor([[0.5000, 0.5000]])
    """

    def __init__(
        self, dim: int = -1, backend: str | None = None, variant: str = "auto", batch_invariant: bool = False
    ) -> None:
        super().__init__()
        self.dim, self.backend, self.variant, self.batch_invariant = dim, backend, variant, batch_invariant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = backends.best("softmax", x) if self.backend is None else backends.get(self.backend)
        result: torch.Tensor = chosen.softmax(x, self.dim, variant=self.variant, batch_invariant=self.batch_invariant)
        return result

    def extra_repr(self) -> str:
        return f"dim={self.dim}, backend={self.backend!r}" + f", variant={self.variant!r}" * (self.variant != "auto")
