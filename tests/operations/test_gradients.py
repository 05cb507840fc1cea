"""Gradients beside torch's own, along any axis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from running_here import backends
from torch.nn import functional

import kernelzoo

DEVICES = backends()
Tensor = torch.Tensor


def over_last(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A norm of torch's, over the last axis alone, along any."""
    return lambda x, *rest, dim: norm(x.movedim(dim, -1), (x.size(dim),), *rest, 0.1).movedim(-1, dim)


RIGHT: dict[str, Callable[..., Tensor]] = {
    "layer_norm": over_last(functional.layer_norm),
    "rms_norm": over_last(functional.rms_norm),
    "sum": torch.sum,
    "cumsum": torch.cumsum,
    "logsumexp": torch.logsumexp,
    "cross_entropy": lambda x, labels, dim: functional.cross_entropy(
        x.movedim(dim, min(1, x.ndim - 1)), labels, reduction="none"
    ),
}
"""What torch computes, eps of norms being 0.1."""
SCALARS = {op: {"eps": 0.1} for op in ("layer_norm", "rms_norm")}
WITH = {(backend, op) for backend in DEVICES for op in RIGHT if kernelzoo.get(backend).variants(op)}


def drawn(op: str, shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = operation_shapes(op, shape, dim)
    inputs = [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in shapes]
    if op == "cross_entropy":
        inputs[1] = torch.randint(shape[dim], shapes[1], generator=generator)
    return inputs


def operation_shapes(op: str, shape: tuple[int, ...], dim: int) -> tuple[tuple[int, ...], ...]:
    operation = kernelzoo.operations.OPERATIONS[op]
    return operation.shapes(shape, (dim % len(shape),))[: len(operation.inputs)]


def pulled(call: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The result of a call, and the gradients of its floats, of a fixed gradient of the result."""
    own = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    result = call(*own)
    grad = torch.linspace(-1, 2, max(result.numel(), 1), dtype=result.dtype, device=result.device)[: result.numel()]
    found = torch.autograd.grad(result, [x for x in own if x.requires_grad], grad.view(result.shape))
    return result.detach(), found


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((3, 5, 7), 0), ((3, 5, 7), 1), ((3, 5, 7), 2), ((2, 3, 4, 5), -2), ((4, 1), 1), ((300,), 0), ((0, 3), 1)],
    ids=str,
)
@pytest.mark.parametrize(("backend", "op"), sorted(WITH))
def test_gradients_are_torch_s(backend: str, op: str, shape: tuple[int, ...], dim: int) -> None:
    method = getattr(kernelzoo.get(backend), op)
    for dtype in (torch.float64, torch.float32):
        inputs = [x.to(DEVICES[backend]) for x in drawn(op, shape, dim, dtype)]
        found = pulled(lambda *given: method(*given, dim=dim, **SCALARS.get(op, {})), inputs)
        right = pulled(lambda *given: RIGHT[op](*given, dim=dim), inputs)
        torch.testing.assert_close(found, right)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.transpose(0, 2),
    "stepped": lambda x: x[:, :, ::2],
    "expanded": lambda x: x[:, :, :1].expand(-1, -1, 3),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("backend", "op"), sorted(WITH))
def test_gradients_of_views(backend: str, op: str, view: str) -> None:
    method, seen = getattr(kernelzoo.get(backend), op), VIEWS[view]
    (x,) = drawn("sum", (5, 6, 4), 1, torch.float64)
    others = drawn(op, tuple(seen(x).shape), 1, torch.float64)[1:]
    inputs = [x.to(DEVICES[backend]) for x in (x, *others)]
    found = pulled(lambda x, *given: method(seen(x), *given, dim=1, **SCALARS.get(op, {})), inputs)
    right = pulled(lambda x, *given: RIGHT[op](seen(x), *given, dim=1), inputs)
    torch.testing.assert_close(found, right)
