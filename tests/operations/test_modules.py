"""``kernelzoo.nn``: the modules compute what torch's do, load torch's weights, and differentiate."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from running_here import backends

import kernelzoo
from kernelzoo import nn

N = 37
DEVICES = backends()
PAIRS = (
    (nn.Softmax(), torch.nn.Softmax(-1)),
    (nn.Softmax(0), torch.nn.Softmax(0)),
    (nn.RMSNorm(N), torch.nn.RMSNorm(N, 1e-6)),
    (nn.LayerNorm(N, eps=0.25), torch.nn.LayerNorm(N, eps=0.25)),
    (nn.LayerNorm(N, bias=False), torch.nn.LayerNorm(N, bias=False)),
)
LOSSES = [(reduction, ignored) for reduction in ("mean", "sum", "none") for ignored in (-100, 2)]


def alike(*shape: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two equal tensors that each want a gradient."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


@pytest.mark.parametrize("backend", DEVICES)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[type(pair[0]).__name__ for pair in PAIRS])
def test_values_and_gradients_are_those_of_torch(ours: Any, theirs: Any, backend: str) -> None:
    device = DEVICES[backend]
    ours, theirs = copy.deepcopy(ours).to(device), copy.deepcopy(theirs).to(device)
    ours.backend = backend
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    assert not any(ours.load_state_dict(theirs.state_dict(), strict=True))
    x, right = alike(3, 5, N, device=device)
    grad, _ = alike(3, 5, N, device=device)
    result, want = ours(x), theirs(right)
    torch.testing.assert_close(result, want)
    result.backward(grad)
    want.backward(grad)
    torch.testing.assert_close(x.grad, right.grad)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("backend", DEVICES)
@pytest.mark.parametrize(("reduction", "ignored"), LOSSES)
def test_cross_entropy_and_its_gradient_are_those_of_torch(reduction: str, ignored: int, backend: str) -> None:
    ours = nn.CrossEntropyLoss(ignored, reduction, backend=backend)
    theirs = torch.nn.CrossEntropyLoss(ignore_index=ignored, reduction=reduction)
    labels = torch.tensor([[0, 2, 3], [2, 1, 2]], device=DEVICES[backend])
    x, right = alike(2, 4, 3, device=DEVICES[backend])
    loss, want = ours(x, labels), theirs(right, labels)
    torch.testing.assert_close(loss, want)
    loss.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(x.grad, right.grad)
    torch.testing.assert_close(ours(x[0, :, 0], labels[0, 0]), theirs(x[0, :, 0], labels[0, 0]))
    every = torch.full_like(labels, ignored)
    torch.testing.assert_close(ours(x, every), theirs(x, every), equal_nan=True)  # a mean of no row is NaN


def test_the_sum_of_half_precision_losses_does_not_overflow() -> None:
    x = torch.tensor([[60000.0, 0.0]], dtype=torch.float16).expand(4, 2)
    mean = nn.CrossEntropyLoss(backend="torch")(x, torch.ones(4, dtype=torch.int64))
    assert mean.dtype == torch.float16 and mean.item() == 60000


def test_a_residual() -> None:
    norm, x = nn.RMSNorm((N,), backend="torch"), torch.randn(2, N)
    for result, want in zip(norm(x, 2 * x), kernelzoo.add_rms_norm(x, 2 * x, norm.weight), strict=True):
        torch.testing.assert_close(result, want)


def test_another_axis() -> None:
    x = torch.randn(N, 4)
    for module in (nn.RMSNorm(N, dim=0), nn.LayerNorm(N, dim=0)):
        torch.testing.assert_close(module(x), copy.copy(module).requires_grad_(False)(x))
    torch.testing.assert_close(nn.LayerNorm(N, dim=0)(x), torch.nn.LayerNorm(N)(x.T).T)


def test_parameters_made_without_memory() -> None:
    norm = nn.LayerNorm(N, device="meta", dtype=torch.bfloat16).to_empty(device="cpu")
    norm.reset_parameters()
    assert norm.weight.dtype == torch.bfloat16
    assert bool((norm.weight == 1).all()) and not norm.bias.any()


def test_compiled() -> None:
    torch._dynamo.reset()
    x, labels = torch.randn(4, N), torch.tensor([0, 3, -100, 1])
    norm, loss = nn.RMSNorm(N), nn.CrossEntropyLoss()

    def step(x: torch.Tensor) -> Any:
        return loss(norm(x, x)[0], labels)

    torch.testing.assert_close(torch.compile(step, fullgraph=True, backend="aot_eager")(x), step(x))


def test_texts_and_errors() -> None:
    x, softmax = torch.randn(3, 5), nn.Softmax(0, backend="torch", variant="naive")
    assert torch.equal(softmax(x), kernelzoo.get("torch").softmax(x, 0, variant="naive"))
    assert repr(softmax) == "Softmax(dim=0, backend='torch', variant='naive')" and not list(softmax.parameters())
    with pytest.raises(kernelzoo.UnknownNameError):
        nn.Softmax(backend="none")(x)
    assert repr(nn.RMSNorm(8, variant="fused")) == "RMSNorm(8, eps=1e-06, dim=-1, backend=None, variant='fused')"
    assert repr(nn.CrossEntropyLoss()) == "CrossEntropyLoss(ignore_index=-100, reduction='mean', dim=1, backend=None)"
    with pytest.raises(kernelzoo.UnknownNameError, match="no reduction 'avg'"):
        nn.CrossEntropyLoss(reduction="avg")
    with pytest.raises(kernelzoo.ShapeError):
        nn.LayerNorm(N, backend="torch")(torch.ones(2, 5))
