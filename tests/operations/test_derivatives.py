"""Gradients, of every backend and variant that runs here: torch's own checks of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from registered import forget, forget_operation
from running_here import backends, variants

import kernelzoo
from kernelzoo.check.running import slow_to_bind
from kernelzoo.errors import BackendUnavailableError, GradientError, UnsupportedProblemError

DEVICES = backends()
SLOW = tuple(name for name in DEVICES if kernelzoo.get(name).emulator)
"""Emulated: their kernels are checked by the contract's suite, and here on ``auto`` alone."""
IDS = [id for id in variants("softmax", "min") if id.split("/")[0] not in SLOW or id.endswith("/auto")]
BACKWARD = [id for id in variants("softmax_backward", "min_backward") if id.split("/")[0] not in SLOW]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget("derived")
    forget_operation("doubled", "weighed")


def call_of(id: str) -> tuple[Callable[..., Any], str]:
    """An implementation as a user calls it, and the device to call it on."""
    backend, op, variant = id.split("/")
    method = getattr(kernelzoo.get(backend), op)
    return lambda *inputs, **named: method(*inputs, variant=variant, **named), DEVICES[backend]


def drawn(*shape: int, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(device).requires_grad_()


def checked(call: Callable[..., Any], *inputs: torch.Tensor, **more: bool) -> None:
    """Torch's check of a gradient, of its gradient, and of forward mode; an implementation may refuse the problem."""
    try:
        call(*(x.detach() for x in inputs))
    except (UnsupportedProblemError, BackendUnavailableError) as refusal:
        pytest.skip(str(refusal))
    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True, check_batched_grad=True, **more)
    assert torch.autograd.gradgradcheck(call, inputs, check_fwd_over_rev=True)


@pytest.mark.sampled(3, "id")
@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(("shape", "dim"), [((2, 4, 3), 1), ((3, 5), -1), ((4, 3), 0)], ids=str)
def test_gradients(id: str, shape: tuple[int, ...], dim: int) -> None:
    call, device = call_of(id)
    if slow_to_bind(id) and len(shape) < 3:
        pytest.skip("takes seconds to bind each problem")
    checked(lambda x: call(x, dim), drawn(*shape, device=device))


@pytest.mark.parametrize("id", BACKWARD)
def test_gradients_of_gradients(id: str) -> None:
    call, device = call_of(id)
    grad = drawn(3, 4, device=device)
    if "softmax" in id:
        checked(lambda grad, y: call(grad, y, 1), grad, drawn(3, 4, device=device).detach().softmax(1).requires_grad_())
    else:
        x = drawn(3, 4, device=device).detach()
        checked(lambda grad: call(x, x.amin(1), grad, 1), drawn(3, device=device))


@pytest.mark.parametrize("backend", DEVICES)
@pytest.mark.parametrize(("dim", "keepdim"), [((0, 2), False), ((0, 2), True), ((), False), (1, True), ((1,), False)])
def test_gradients_of_a_minimum_over_axes(backend: str, dim: Any, keepdim: bool) -> None:
    x = drawn(2, 3, 4, device=DEVICES[backend])
    method = kernelzoo.get(backend).min
    checked(lambda x: method(x, dim, keepdim), x)
    ties = torch.tensor([[1.0, 1.0, 2.0], [1.0, 3.0, 3.0]], device=DEVICES[backend], requires_grad=True)
    right = ties.detach().clone().requires_grad_()
    method(ties, (0, 1)).backward()
    torch.amin(right, (0, 1)).backward()
    assert torch.equal(ties.grad, right.grad)


@pytest.mark.parametrize("backend", DEVICES)
def test_a_gradient_runs_on_its_own_backend(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, asked = kernelzoo.get(backend), []
    for key, bind in list(owner._binds.items()):
        if "backward" in key[0]:

            def noting(*tensors: Any, bind: Any = bind, key: Any = key) -> Any:
                asked.append(key)
                return bind(*tensors)

            monkeypatch.setitem(owner._binds, key, noting)
    owner._cache.forget()
    x = drawn(3, 77, device=DEVICES[backend])
    owner.softmax(x).square().sum().backward()
    owner.min(x).square().sum().backward()
    assert asked == [("softmax_backward", "auto"), ("min_backward", "auto")]
    owner._cache.forget()


@pytest.mark.parametrize("backend", DEVICES)
def test_only_the_output_is_saved(backend: str) -> None:
    """As much memory as torch.softmax keeps for its gradient."""
    x = drawn(3, 5, device=DEVICES[backend])
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.shape) or x, lambda x: x):
        kernelzoo.get(backend).softmax(x)
    assert saved == [x.shape]


@pytest.mark.parametrize("backend", DEVICES)
def test_what_is_refused_by_name(backend: str) -> None:
    owner, x = kernelzoo.get(backend), drawn(3, 5, device=DEVICES[backend])
    with pytest.raises(GradientError, match="out="):
        owner.softmax(x, out=torch.empty_like(x))
    with pytest.raises(GradientError, match="out="):
        owner.min(x, out=torch.empty(3, dtype=x.dtype, device=x.device))
    with torch.no_grad():
        assert not owner.softmax(x, out=torch.empty_like(x)).requires_grad


def test_an_operation_without_a_gradient_says_so() -> None:
    @kernelzoo.operation(dtypes=("float32",))
    class doubled:
        x = kernelzoo.Input("outer n inner")
        out = kernelzoo.Output("outer n inner")

        @staticmethod
        def reference(x: torch.Tensor) -> torch.Tensor:
            return 2 * x

    @kernelzoo.register("derived", "doubled", "plain")
    def plain(x: torch.Tensor, out: torch.Tensor) -> Any:
        return lambda: torch.mul(x, 2, out=out)

    call = kernelzoo.get("derived").doubled
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(GradientError, match="doubled has no gradient"):
        call(x)
    with torch.no_grad():
        assert torch.equal(call(x), 2 * x)
    with pytest.raises(GradientError, match="doubled has no gradient"):
        torch.func.grad(lambda x: call(x).sum())(x.detach())


def test_the_reference_s_own_gradient() -> None:
    """Of an operation of several inputs and outputs, one of them of integers."""

    @kernelzoo.operation(dtypes=("float32", "float64"))
    class weighed:
        x = kernelzoo.Input("outer n inner")
        weight = kernelzoo.Input("n")
        power = kernelzoo.Scalar(2.0)
        total = kernelzoo.Output("outer inner")
        place = kernelzoo.Output("outer inner", dtype="int64")
        gradient = "reference"

        @staticmethod
        def reference(x: torch.Tensor, weight: torch.Tensor, power: float) -> Any:
            return (x.pow(power) * weight[:, None]).sum(1), x.argmax(1)

        @staticmethod
        def error(ref: Any, unit: float) -> Any:
            return ref[0].abs() * unit * 100, None

    @kernelzoo.register("derived", "weighed", "plain")
    def plain(x: torch.Tensor, weight: torch.Tensor, total: torch.Tensor, place: torch.Tensor, power: float) -> Any:
        def launch() -> None:
            total.copy_((x.pow(power) * weight[:, None]).sum(1))
            place.copy_(x.argmax(1))

        return launch

    call = kernelzoo.get("derived").weighed
    x, weight = drawn(3, 4, device="cpu"), drawn(4, device="cpu")
    function = lambda x, weight: call(x, weight, power=3.0)[0]  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, weight), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (x, weight))
    total, place = call(x, weight)
    assert total.requires_grad and not place.requires_grad
    found = torch.compile(function, fullgraph=True, backend="aot_eager")(x, weight)
    assert torch.equal(found, function(x, weight))


def test_a_backend_without_the_gradient_s_kernel_says_so() -> None:
    @kernelzoo.register("derived", "softmax", "plain")
    def plain(x: torch.Tensor, out: torch.Tensor) -> Any:
        return lambda: torch.softmax(x, 1, out=out)

    y = kernelzoo.get("derived").softmax(torch.ones(2, 3, requires_grad=True))
    with pytest.raises(GradientError, match="derived has no softmax_backward"):
        y.sum().backward()
