"""The fast paths of a repeated call, with a launch in a kernel's place, on the host."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from registered import forget

import kernelzoo
import kernelzoo.nn
from kernelzoo.calls import launch_cache
from kernelzoo.launch import RebindableLaunch

calls: list[str] = []


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A backend whose launches are kept, as those of a GPU are; each says where it comes from."""

    def bound(name: str, *tensors: torch.Tensor) -> RebindableLaunch:
        calls.append(f"bind {name}")
        alignments = [tensor.data_ptr() % 16 for tensor in tensors]

        def at(*addresses: int) -> None:
            calls.append(name)
            assert [address % 16 for address in addresses] == alignments  # what it was bound for
            sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
            made = [
                torch.frombuffer((_char * size).from_address(address), dtype=tensor.dtype).view(tensor.shape)
                for address, size, tensor in zip(addresses, sizes, tensors, strict=True)
            ]
            *inputs, out = made
            if name == "softmax":
                torch.softmax(inputs[0], 1, out=out)
            else:
                out.copy_(inputs[1] * (inputs[0] - (inputs[0] * inputs[1]).sum(1, keepdim=True)))

        return RebindableLaunch(at, *tensors)

    from ctypes import c_char as _char

    kernelzoo.register("kept", "softmax", "auto")(lambda x, out: bound("softmax", x, out))
    kernelzoo.register("kept", "softmax_backward", "auto")(lambda grad, y, out: bound("backward", grad, y, out))
    found = kernelzoo.get("kept")
    monkeypatch.setattr(found._cache, "_on_host", True)
    monkeypatch.setattr(found, "_allocate", lambda *made: torch.empty_strided(made[0], made[1], dtype=made[2]))
    calls.clear()
    yield found
    forget("kept")


def test_repeated_calls_on_the_host_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the backend that runs there. Another layout, dtype or alignment is another launch."""
    owner = kernelzoo.get("cpu")
    owner._cache.forget()
    bound, whole = [], owner._launch
    monkeypatch.setattr(owner, "_launch", lambda *args: bound.append(args) or whole(*args))
    for turn in range(3):
        for dtype in (torch.float32, torch.bfloat16):
            for shift in (0, 1):
                x = torch.randn(8 * 16 + 1).to(dtype)[shift : shift + 128].view(8, 16)
                torch.testing.assert_close(owner.softmax(x), torch.softmax(x, -1))
                torch.testing.assert_close(owner.softmax(x.T, 0), torch.softmax(x.T, 0))
                assert torch.equal(owner.min(x), x.amin(-1)) and torch.equal(owner.min(x, 0), x.amin(0))
        assert len(bound) == 16, turn
    owner._cache.forget()


def test_axes_reduced_one_after_the_other_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = kernelzoo.get("cpu")
    owner._cache.forget()
    bound, whole = [], owner._launch
    monkeypatch.setattr(owner, "_launch", lambda *args: bound.append(args) or whole(*args))
    for _ in range(3):
        x, y = torch.randn(3, 4, 5, 6, 7), torch.randn(2, 4, 6)
        for dims in ((0, 2), (0, 2, 4)):
            assert torch.equal(owner.min(x, dims), x.amin(dims))
        assert torch.equal(owner.min(y, [0, 2], keepdim=True), y.amin([0, 2], keepdim=True))
    assert len(bound) == 3
    owner._cache.forget()
    monkeypatch.setattr(launch_cache, "MAX_WORKSPACE_BYTES", 16)  # what is larger is bound for each call
    for _ in range(3):
        assert torch.equal(owner.min(x, (0, 2)), x.amin((0, 2)))
    assert len(bound) == 6
    owner._cache.forget()


def test_a_layout_that_is_copied_is_bound_once_for_the_copy(backend: Any) -> None:
    for required in (False, True):
        calls.clear()
        for _ in range(4):
            x = torch.randn(3, 5, 7, 9).permute(2, 0, 3, 1).requires_grad_(required)
            found = backend.softmax(x, 1)
            torch.testing.assert_close(found, torch.softmax(x, 1))
            assert found.is_contiguous() and found.requires_grad is required
            grad = torch.randn(7, 3, 9, 5)
            wanted = found.detach() * (grad - (grad * found.detach()).sum(1, keepdim=True))
            y = found.detach().permute(1, 3, 0, 2).contiguous().permute(2, 0, 3, 1)
            torch.testing.assert_close(backend.softmax_backward(grad, y, 1), wanted)
        assert calls.count("bind softmax") <= 2 and calls.count("bind backward") <= 2
        assert calls.count("softmax") == calls.count("backward") == 4


def test_a_repeated_call_under_autocast_is_bound_once(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless autocast could cast its input, which it does on a GPU."""
    bound = {torch.float32: 0, torch.bfloat16: 4}
    for dtype, times in bound.items():
        x = torch.randn(8, 16).to(dtype)
        backend.softmax(x)
        calls.clear()
        with monkeypatch.context() as autocast:
            autocast.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
            torch.set_autocast_enabled("cpu", True)
            for _ in range(4):
                assert backend.softmax(x).dtype is dtype
            torch.set_autocast_enabled("cpu", False)
        assert calls.count("bind softmax") == times and calls.count("softmax") == 4
        backend.softmax(x)
        assert calls.count("bind softmax") == times


def test_a_repeated_call_of_a_parameter_is_bound_once(backend: Any) -> None:
    x = torch.nn.Parameter(torch.randn(8, 16))
    for _ in range(3):
        found = backend.softmax(x)
        assert type(found) is torch.Tensor and found.requires_grad
        assert torch.autograd.grad(found, x, torch.ones(8, 16))[0].abs().max() < 1e-5
        with torch.no_grad():
            assert not backend.softmax(x).requires_grad
        assert not backend.softmax(x.detach()).requires_grad
    assert calls.count("bind softmax") <= 2


def test_a_call_says_what_is_wrong_with_its_arguments(backend: Any) -> None:
    grad, y = torch.randn(8, 16), torch.randn(8, 16)
    wanted = backend.softmax_backward(grad, y, -1)
    assert torch.equal(backend.softmax_backward(y=y, grad=grad, axis=1), wanted)
    assert torch.equal(backend.softmax_backward(grad, dim=1, y=y, variant="auto"), wanted)
    for given, named, words in (
        ((grad,), {}, "missing a required argument: 'y'"),
        ((grad,), {"x": y}, "missing a required argument: 'y'"),
        ((grad, y, -1, y), {}, "too many positional"),
        ((grad, y), {"grad": grad}, "multiple values for argument 'grad'"),
        ((grad, y, -1), {"dim": -1}, "multiple values for argument 'dim'"),
        ((grad, y), {"other": 1}, "unexpected keyword argument 'other'"),
    ):
        with pytest.raises(TypeError, match=words):
            backend.softmax_backward(*given, **named)
    with pytest.raises(kernelzoo.AxisError, match="another name"):
        backend.softmax_backward(grad, y, 0, axis=1)


def test_a_repeated_call_with_a_gradient_is_bound_once_each_way(backend: Any) -> None:
    for _ in range(4):
        x = torch.randn(8, 16, requires_grad=True)
        right = x.detach().clone().requires_grad_()
        seed = torch.randn(8, 16)
        (found,) = torch.autograd.grad(backend.softmax(x), x, seed)
        torch.testing.assert_close(found, torch.autograd.grad(torch.softmax(right, -1), right, seed)[0])
    assert calls.count("bind softmax") == 1 and calls.count("bind backward") == 1
    assert calls.count("backward") == 4
    x = torch.randn(8, 16, requires_grad=True)
    (once,) = torch.autograd.grad(backend.softmax(x).square().sum(), x, create_graph=True)
    (twice,) = torch.autograd.grad(once.square().sum(), x)
    right = x.detach().clone().requires_grad_()
    (wanted,) = torch.autograd.grad(torch.softmax(right, -1).square().sum(), right, create_graph=True)
    torch.testing.assert_close(twice, torch.autograd.grad(wanted.square().sum(), right)[0])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")  # torch's own prototype
def test_a_nested_tensor_after_a_plain_one_is_refused(backend: Any) -> None:
    """Torch's test of what is alike ends the process for one."""
    nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])
    for _ in range(2):
        backend.softmax(torch.randn(8, 16))
        backend.softmax_backward(torch.randn(8, 16), torch.randn(8, 16))
    with pytest.raises(kernelzoo.InputTypeError, match="nested"):
        backend.softmax(nested)
    with pytest.raises(kernelzoo.InputTypeError, match="nested"):
        backend.softmax_backward(torch.randn(8, 16), nested)


def test_torch_s_operation_finds_the_launch_that_is_kept(backend: Any) -> None:
    """Torch makes a new string of the variant for each call; the test of the call before is kept all the same."""
    x = torch.randn(8, 16)
    op = torch.ops.kernelzoo.softmax.default
    op(x, -1, "kept", "auto")
    op(x, -1, "kept", "auto")
    before = next(iter(backend._cache.expected.values())).guard
    for _ in range(3):
        torch.testing.assert_close(op(x, -1, "kept", "auto"), torch.softmax(x, -1))
    assert next(iter(backend._cache.expected.values())).guard is before
    assert calls.count("bind softmax") == 1


def test_a_repeated_call_into_the_caller_s_memory_is_bound_once(backend: Any) -> None:
    """For each layout and alignment, with one input or several."""
    for turn in range(4):
        for shift in (0, 1):
            x, out = torch.randn(8, 16), torch.empty(8 * 16 + 1)[shift : shift + 128].view(8, 16)
            assert backend.softmax(x, out=out) is out
            torch.testing.assert_close(out, torch.softmax(x, -1))
            grad, y = torch.randn(8, 16), torch.randn(8, 16)
            assert backend.softmax_backward(grad, y, out=out) is out
            torch.testing.assert_close(out, y * (grad - (grad * y).sum(1, keepdim=True)))
        assert calls.count("bind softmax") == calls.count("bind backward") == 2, turn
    assert calls.count("softmax") == calls.count("backward") == 8
    backend._cache.forget()
    backend.softmax(x, out=out)
    assert calls.count("bind softmax") == 3


def test_torch_knows_that_the_caller_s_memory_was_written(backend: Any) -> None:
    """What saved it for a gradient is told so, as by torch's own."""
    for _ in range(3):  # bound, kept, kept from the call before
        saved = torch.randn(8, 16)
        y = torch.randn(8, 16, requires_grad=True) * saved
        backend.softmax(torch.randn(8, 16), out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_memory_of_the_caller_s_is_checked_at_each_call(backend: Any) -> None:
    x, out = torch.randn(8, 16), torch.empty(8, 16)
    for _ in range(3):
        backend.softmax(x, out=out)
    memory = torch.randn(2 * 8 * 16)
    with pytest.raises(kernelzoo.OutputError, match="overlap"):
        backend.softmax(memory[:128].view(8, 16), out=memory[64:192].view(8, 16))
    with pytest.raises(kernelzoo.OutputError, match="overlap"):
        backend.softmax(x, out=x)
    assert backend.softmax(memory[:128].view(8, 16), out=memory[128:].view(8, 16)).data_ptr() == memory[128:].data_ptr()
    with pytest.raises(kernelzoo.GradientError):
        backend.softmax(x.requires_grad_(), out=out)
    with pytest.raises(kernelzoo.OutputError, match="must not require a gradient"):
        backend.softmax(x.detach(), out=torch.empty(8, 16, requires_grad=True))
    with pytest.raises(kernelzoo.OutputError, match="shape"):
        backend.softmax(x.detach(), out=torch.empty(16, 8))
