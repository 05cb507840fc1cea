"""Torch's modes, its profiler and its graph of gradients name a call, as they name torch's own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from running_here import backends
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

import kernelzoo
import kernelzoo.nn

pytestmark = pytest.mark.slow

DEVICES = backends()


class Dispatched(TorchDispatchMode):
    """The names of the operations that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))

    @property
    def ours(self) -> list[str]:
        return [name for name in self.seen if name.startswith("kernelzoo.")]


class Functions(TorchFunctionMode):
    """The functions of torch that are called, and ours, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, Any, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    @property
    def names(self) -> list[str]:
        return [func.__name__ for func, _, _ in self.seen if func.__name__ in ("softmax", "min")]


@pytest.fixture(params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    found = kernelzoo.get(request.param)
    found._cache.forget()
    yield found
    found._cache.forget()


@pytest.fixture
def x(backend: Any) -> torch.Tensor:
    return torch.arange(12.0, device=DEVICES[backend.name]).view(3, 4).sin()


def warmed(backend: Any, x: torch.Tensor) -> None:
    """Calls whose launches are kept."""
    for _ in range(2):
        backend.softmax(x), backend.min(x, 0), backend.softmax(x.requires_grad_()), x.requires_grad_(False)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_mode_of_the_dispatcher_sees_calls(backend: Any, x: torch.Tensor, repeated: bool) -> None:
    """By name, and nothing of what a call does; the second as the first, and the results are right."""
    if repeated:
        warmed(backend, x)
    for _ in range(2):
        with Dispatched() as outer, Dispatched() as inner:
            y, least = backend.softmax(x), backend.min(x, (0, 1), keepdim=True)
        assert outer.seen == inner.seen == ["kernelzoo.softmax.default", "kernelzoo.min.default"]
        torch.testing.assert_close((y, least), (torch.softmax(x, -1), torch.amin(x, (0, 1), keepdim=True)))
        with Dispatched() as mode:
            out = torch.empty_like(x)
            assert backend.softmax(x, out=out) is out
        assert mode.ours == ["kernelzoo.softmax.default"] and torch.equal(out, y)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_mode_of_the_dispatcher_sees_gradients(backend: Any, x: torch.Tensor, repeated: bool) -> None:
    if repeated:
        warmed(backend, x)
    x.requires_grad_()
    (right,) = torch.autograd.grad(torch.softmax(x, 0).square().sum() + torch.amin(x, 0).sum(), x)
    for _ in range(2):
        with Dispatched() as mode:
            (found,) = torch.autograd.grad(backend.softmax(x, 0).square().sum() + backend.min(x, 0).sum(), x)
        forward, backward = mode.ours[:2], set(mode.ours[2:])
        assert forward == ["kernelzoo.softmax.default", "kernelzoo.min.default"]
        assert backward == {"kernelzoo.softmax_backward.default", "kernelzoo.min_backward.default"}
        torch.testing.assert_close(found, right)


def test_what_a_mode_runs_is_kept(backend: Any, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated call is bound as often in a mode as without."""
    bound, whole = [], backend._launch
    monkeypatch.setattr(backend, "_launch", lambda *args: bound.append(args) or whole(*args))
    with Dispatched():
        for _ in range(4):
            backend.softmax(x)
    within = len(bound)
    backend._cache.forget()
    for _ in range(4):
        backend.softmax(x)
    assert within == len(bound) - within


def test_a_checkpoint_may_save_a_call(backend: Any, x: torch.Tensor) -> None:
    """By its name: the others run again, and this does not. Gradients are those of torch's own."""

    def block(call: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return call((x @ weight).sin(), -1).square()

    ran: dict[str, list[str]] = {}
    grads = []
    for name, call, op in (
        ("torch", torch.softmax, torch.ops.aten._softmax.default),
        ("kernelzoo", backend.softmax, torch.ops.kernelzoo.softmax.default),
    ):
        weight = torch.eye(4, device=x.device, requires_grad=True)
        contexts = partial(create_selective_checkpoint_contexts, [op])
        y = checkpoint(block, call, x, weight, use_reentrant=False, context_fn=contexts)
        with Dispatched() as mode:
            y.sum().backward()
        ran[name] = [str(name) for name in mode.seen]
        grads.append(weight.grad)
    torch.testing.assert_close(*grads)
    assert "aten.sin.default" in ran["kernelzoo"] and "kernelzoo.softmax.default" not in ran["kernelzoo"]
    asked = []

    def policy(_: Any, op: Any, *args: Any, **named: Any) -> CheckpointPolicy:
        asked.append(op)
        return CheckpointPolicy.PREFER_RECOMPUTE

    contexts = partial(create_selective_checkpoint_contexts, policy)
    checkpoint(block, backend.softmax, x, weight, use_reentrant=False, context_fn=contexts).sum().backward()
    assert torch.ops.kernelzoo.softmax.default in asked


def test_operations_are_counted(backend: Any, x: torch.Tensor) -> None:
    counts = {torch.ops.kernelzoo.softmax: lambda shape, *args, out_shape=None, **named: 3 * shape.numel()}
    with FlopCounterMode(display=False, custom_mapping=counts) as mode:
        backend.softmax(x), backend.softmax(x)
    assert mode.get_total_flops() == 6 * x.numel()


@pytest.mark.parametrize("repeated", [False, True])
def test_the_graph_and_the_profiler_name_calls(backend: Any, x: torch.Tensor, repeated: bool) -> None:
    if repeated:
        warmed(backend, x)
    x.requires_grad_()
    for _ in range(2):
        assert backend.softmax(x).grad_fn.name() == "SoftmaxBackward"
        assert backend.min(x, 0).grad_fn.name() == "MinBackward"
        assert backend.softmax_backward(x, x.detach()).grad_fn.name() == "SoftmaxBackwardBackward"
    before = backend.softmax(x)
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        for _ in range(2):
            y = backend.softmax(x)
            assert y.grad_fn.name() == "SoftmaxBackward"
            (y * before).sum().backward(retain_graph=True)
            with torch.no_grad():
                backend.min(x, 0), backend.softmax(x, out=torch.empty_like(x))
    events = {event.key: event.count for event in profile.key_averages()}
    shapes = [event.input_shapes[0] for event in profile.function_events if event.name == "kernelzoo::min"]
    assert events["kernelzoo::softmax_backward"] == events["SoftmaxBackward"] == 4 and events["kernelzoo::min"] == 2
    assert shapes == [[3, 4]] * 2 and sum(event.name == "kernelzoo::softmax" for event in profile.function_events) == 4
    assert not any(name in key for key in events for name in ("CachedLaunchFunction", "Differentiable"))
    assert torch.equal(y, before)


def test_transforms_name_calls(x: torch.Tensor) -> None:
    names = []
    torch.func.grad(lambda x: [y := kernelzoo.softmax(x), names.append(y.grad_fn.name()), y.sum()][-1])(x)
    assert names and all(name.startswith("Softmax") for name in names)


def test_a_mode_of_functions_sees_calls(backend: Any, x: torch.Tensor) -> None:
    """Once, as the method that is called with its arguments, as it sees ``Tensor.softmax``."""
    warmed(backend, x)
    with Functions() as outer, Functions() as mode:
        y = x.softmax(0)
        assert torch.equal(backend.softmax(x, 0, variant="auto"), backend.softmax(x, 0))
        out = torch.empty_like(x[0])
        backend.min(x, 0, keepdim=False, out=out)
        kernelzoo.softmax(x, 0)
        torch.testing.assert_close(torch.func.jvp(backend.softmax, (x,), (x,))[0], torch.softmax(x, -1))
    assert outer.names == mode.names == [*["softmax"] * 3, "min", *["softmax"] * 3]
    (torchs, *_), (ours, args, _), *_ = (seen for seen in mode.seen if seen[0].__name__ == "softmax")
    assert torchs is torch.Tensor.softmax and ours is kernelzoo.Backend.softmax and args == (backend, x, 0)
    torch.testing.assert_close(y, backend.softmax(x, 0))
    assert torch.equal(out, x.amin(0))
    with torch.device(x.device), Dispatched() as seen:  # torch's own mode of functions
        backend.softmax(x)
    assert seen.seen == ["kernelzoo.softmax.default"]


def test_a_subclass_sees_calls(backend: Any, x: torch.Tensor) -> None:
    seen = []

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    y = backend.softmax(x.as_subclass(Named), 0)
    assert type(y) is Named and seen == [kernelzoo.Backend.softmax]
    torch.testing.assert_close(y.as_subclass(torch.Tensor), torch.softmax(x, 0))
