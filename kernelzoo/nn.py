"""Operations as modules of ``torch.nn``. Each takes the place of torch's module of its name, and loads its weights.

All have these options. dim: the axis, by default the last. backend: a backend's name; None takes the best one for the
input's device. variant: a form of the backend. batch_invariant: as in :meth:`kernelzoo.Backend.softmax`. Gradients run
on the same backend. Errors are those of the backend's operation, at the first call.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelzoo.calls import backend as backends
from kernelzoo.calls import torch_library as torch_library  # it defines torch.ops.kernelzoo
from kernelzoo.calls.methods import unscripted
from kernelzoo.errors import UnknownNameError

__all__ = ["CrossEntropyLoss", "LayerNorm", "RMSNorm", "Softmax", "torch_library"]

_REDUCTIONS = ("mean", "none", "sum")


class _Module(torch.nn.Module):
    def __init__(
        self, dim: int = -1, backend: str | None = None, variant: str = "auto", batch_invariant: bool = False
    ) -> None:
        super().__init__()
        self.dim, self.backend, self.variant, self.batch_invariant = dim, backend, variant, batch_invariant

    def extra_repr(self) -> str:
        return f"dim={self.dim}, backend={self.backend!r}" + f", variant={self.variant!r}" * (self.variant != "auto")


@unscripted
def _call_operation(module: _Module, op: str, *inputs: torch.Tensor, dim: int, **scalars: Any) -> Any:
    chosen = backends.best(op, inputs[0]) if module.backend is None else backends.get(module.backend)
    call = getattr(chosen, op)
    return call(*inputs, dim, variant=module.variant, batch_invariant=module.batch_invariant, **scalars)


class Softmax(_Module):
    """Softmax along one axis, as ``torch.nn.Softmax``.

    Input and output: float16, bfloat16, float32 or float64, of one shape. Options: see :mod:`kernelzoo.nn`.

    >>> import torch, kernelzoo.nn
    >>> kernelzoo.nn.Softmax(dim=1, backend="torch")(torch.zeros(1, 2))
    tensor([[0.5000, 0.5000]])
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _call_operation(self, "softmax", x, dim=self.dim)
        return result


class _Norm(_Module):
    def __init__(
        self, normalized_shape: int, eps: float = 1e-6, *, device: Any = None, dtype: Any = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set each weight to 1, and each bias to 0."""
        torch.nn.init.ones_(self.weight)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, {super().extra_repr()}"


class RMSNorm(_Norm):
    """RMS norm of each row, as ``torch.nn.RMSNorm`` of one axis.

    normalized_shape: the length of the axis. eps: a float; its default does not depend on the dtype, unlike torch's.
    device, dtype: of the parameter ``weight``; x must have the same. Options: see :mod:`kernelzoo.nn`.

    A call with ``residual`` first adds it to x, and returns the norm and the sum; see
    :meth:`kernelzoo.Backend.add_rms_norm`.

    >>> import torch, kernelzoo.nn
    >>> norm, x = kernelzoo.nn.RMSNorm(2, backend="torch"), torch.tensor([[3.0, 3.0]])
    >>> norm(x).detach()
    tensor([[1.0000, 1.0000]])
    >>> out, total = norm(x, residual=x)
    >>> total.detach()
    tensor([[6., 6.]])
    """

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        if residual is None:
            return _call_operation(self, "rms_norm", x, self.weight, dim=self.dim, eps=self.eps)
        return _call_operation(self, "add_rms_norm", x, residual, self.weight, dim=self.dim, eps=self.eps)


class LayerNorm(_Norm):
    """Layer norm of each row, as ``torch.nn.LayerNorm`` of one axis.

    normalized_shape: the length of the axis. bias: whether ``bias`` is a parameter; if not, zeros are added. device,
    dtype: of the parameters; x must have the same. Options: see :mod:`kernelzoo.nn`.

    >>> import torch, kernelzoo.nn
    >>> kernelzoo.nn.LayerNorm(2, backend="torch")(torch.tensor([[0.0, 4.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    bias: torch.Tensor

    def __init__(
        self,
        normalized_shape: int,
        eps: float = 1e-5,
        *,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(normalized_shape, eps, device=device, dtype=dtype, **options)
        zeros = torch.zeros_like(self.weight)
        if bias:
            self.bias = torch.nn.Parameter(zeros)
        else:
            self.register_buffer("bias", zeros, persistent=False)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _call_operation(
            self, "layer_norm", x, self.weight, self.bias, dim=self.dim, eps=self.eps
        )
        return result


class CrossEntropyLoss(_Module):
    """Cross entropy of logits and labels, as ``torch.nn.CrossEntropyLoss``.

    dim: the axis of the classes; 0 if x has one axis. reduction: "none" returns each row's loss; "sum" adds them;
    "mean" divides by the number of rows whose label is not ``ignore_index``. Options: see :mod:`kernelzoo.nn`.

    x and labels: see :meth:`kernelzoo.Backend.cross_entropy`. Raises UnknownNameError for another reduction.

    >>> import torch, kernelzoo.nn
    >>> kernelzoo.nn.CrossEntropyLoss(backend="torch")(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(self, ignore_index: int = -100, reduction: str = "mean", dim: int = 1, **options: Any) -> None:
        if reduction not in _REDUCTIONS:
            raise UnknownNameError("reduction", reduction, _REDUCTIONS)
        super().__init__(dim, **options)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        dim = self.dim if x.dim() > 1 else 0
        losses: torch.Tensor = _call_operation(
            self, "cross_entropy", x, labels, dim=dim, ignore_index=self.ignore_index
        )
        if self.reduction == "none":
            return losses
        wide = losses.sum(dtype=torch.promote_types(losses.dtype, torch.float32))
        if self.reduction == "mean":
            wide = wide / (labels != self.ignore_index).sum()
        return wide.to(losses.dtype)

    def extra_repr(self) -> str:
        return f"ignore_index={self.ignore_index}, reduction={self.reduction!r}, {super().extra_repr()}"
