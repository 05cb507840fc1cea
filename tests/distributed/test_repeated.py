"""Repeated calls over ranks, in one process that is the only rank: each step is bound once, and then moved."""

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from registered import forget

import kernelzoo
import kernelzoo.distributed
from kernelzoo import registry
from kernelzoo.distributed import calls, local, parts
from kernelzoo.launch import Bind, RebindableLaunch
from kernelzoo.operations import BUILT_IN, Operation

ROWS = 6


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A group of this process, and nothing kept of other tests."""
    monkeypatch.setattr(local, "_kept", {})
    monkeypatch.setattr(calls, "_last", {})
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def placed(look: torch.Tensor, address: int) -> torch.Tensor:
    """A tensor of that look, at an address."""
    last = sum((size - 1) * stride for size, stride in zip(look.shape, look.stride(), strict=True))
    memory = (ctypes.c_byte * ((last + 1) * look.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=look.dtype).as_strided(look.shape, look.stride())


def moved(bind: Bind) -> Bind:
    """The same kernel, whose launch can be moved to other addresses, as on a GPU."""

    def movable(*tensors: torch.Tensor) -> RebindableLaunch:
        looks = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in tensors]
        return RebindableLaunch(lambda *addresses: bind(*map(placed, looks, addresses))(), *tensors)

    return movable


@pytest.fixture
def movable() -> Iterator[None]:
    """The backend ``movable``: torch's kernels, whose launches can be moved."""
    for op in BUILT_IN:
        registry.register("movable", op, "eager")(moved(registry.language("torch").binds[op, "eager"]))
    yield
    forget("movable")


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The steps that have been bound."""
    found: list[object] = []
    call = local.BoundOperation.__call__

    def counted(self: local.BoundOperation, *given: Any) -> None:
        found.append(self)
        call(self, *given)

    monkeypatch.setattr(local.BoundOperation, "__call__", counted)
    return found


def _calls(x: torch.Tensor) -> dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    """Of each operation what it makes of x, and what torch makes of it."""
    at, given = kernelzoo.distributed, {"backend": "movable"}
    y, least, grad = x.softmax(1), x.amin(1), torch.randn_like(x)
    few = grad[:, 0].contiguous()
    spread = (x == least[:, None]) * few[:, None]
    return {
        "softmax": lambda: (at.softmax(x, **given), y),
        "min": lambda: (at.min(x, **given), least),
        "softmax_backward": lambda: (at.softmax_backward(grad, y, **given), y * (grad - (grad * y).sum(1, True))),
        "min_backward": lambda: (at.min_backward(x, least, few, **given), spread),
    }


@pytest.mark.usefixtures("movable")
@pytest.mark.parametrize("op", ["softmax", "min", "softmax_backward", "min_backward"])
@pytest.mark.parametrize(("n", "count"), [(700, 1), (700, 5), (640, 5), (451, 7), (40, 5)], ids=str)
def test_a_repeated_call_binds_nothing(n, count, op, bound, monkeypatch) -> None:
    """Whatever parts a shard is cut into: whole ones, with a rest and without, and some that are empty."""
    monkeypatch.setattr(parts, "count_row_parts", lambda rows, on_gpu: count)
    for turn in range(3):
        found, expected = _calls(torch.randn(ROWS, n))[op]()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert bool(bound) is (turn == 0)
        bound.clear()


@pytest.mark.usefixtures("movable")
def test_a_step_is_moved_where_there_are_several_gpus_too(bound: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere a launch is wrapped there, so that it makes its own device current, and can't be moved any more."""
    monkeypatch.setattr(registry, "wrap_with_device", lambda launch, x: lambda: launch())
    for _ in range(2):
        found, expected = _calls(torch.randn(ROWS, 300))["softmax"]()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert len(bound) == 3, "its three steps, once"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_call_like_the_one_before_is_not_checked_again_and_another_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    check = Operation.check_tensors

    def counted(self: Operation, *given: Any) -> tuple[int, ...]:
        seen.append(self.name)
        return check(self, *given)

    monkeypatch.setattr(Operation, "check_tensors", counted)
    minimum = partial(kernelzoo.distributed.min, backend="cpu")
    x = torch.randn(ROWS, 41)
    for _ in range(2):
        torch.testing.assert_close(minimum(x), x.amin(1))
    asked = seen.count("min")
    torch.testing.assert_close(minimum(x.neg()), x.neg().amin(1))
    assert seen.count("min") == asked == 3, "once itself, and where its two steps are bound"
    torch.testing.assert_close(minimum(deep := torch.randn(2, 3, 41)), deep.amin(2))
    torch.testing.assert_close(minimum(x, 0), x.amin(0))
    torch.testing.assert_close(minimum(x.t()), x.amin(0))
    assert minimum(x, keepdim=True).shape == (ROWS, 1)
    minimum(x)
    with pytest.raises(kernelzoo.errors.InputTypeError, match="nested"):
        minimum(torch.nested.nested_tensor([x[0], x[1]]))
    with pytest.raises(kernelzoo.errors.UnknownNameError, match="nothing"):
        minimum(x, backend="nothing")
    with torch.autograd.forward_ad.dual_level(), pytest.raises(kernelzoo.errors.GradientError, match="tangent"):
        minimum(torch.autograd.forward_ad.make_dual(x, x))
    slope = x.clone().requires_grad_()
    minimum(slope).sum().backward()
    torch.testing.assert_close(slope.grad, (x == x.amin(1, True)).float())


@pytest.mark.parametrize(
    ("backend", "op", "runs"),
    [
        ("cpu", "softmax_pairs", "torch/softmax_pairs/eager"),
        ("numba", "vecdot", "torch/vecdot/eager"),
        ("torch", "softmax_merge", "torch/softmax_merge/eager"),
        ("triton", "softmax_finish", "triton/softmax_finish/blocks"),
        ("cpu", "min", "cpu/min/auto"),
    ],
)
def test_a_backend_without_a_kernel_of_a_pass_takes_another_s(backend: str, op: str, runs: str) -> None:
    assert local.implementation_of(op, backend, torch.empty(2)).id == runs


def test_triton_runs_passes_on_a_gpu() -> None:
    """As far as can be seen without one: of the backends that have a pass, it is preferred there."""
    having = {i.backend for i in kernelzoo.implementations(op="softmax_pairs")} & set(kernelzoo.packages.BUILT_IN)
    assert having == {"triton", "torch"}
    order = registry.preferred_backends("softmax_pairs", "cuda")
    assert [name for name in order if name in having] == ["triton", "torch"]


def test_a_backend_without_the_operation_is_no_backend_of_it() -> None:
    registry.register("moveless", "min", "eager")(registry.language("torch").binds["min", "eager"])
    try:
        with pytest.raises(kernelzoo.errors.UnknownNameError, match="moveless operation 'softmax'"):
            kernelzoo.distributed.softmax(torch.randn(ROWS, 4), backend="moveless")
    finally:
        forget("moveless")
