"""Tensors that torch wraps, traces or differentiates: a call is right, or raises a named error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.masked import masked_tensor

import kernelzoo
from kernelzoo import GradientError, InputTypeError, OutputError

Tensor = torch.Tensor
Call = Callable[..., Any]

CALLS = {f"{backend}/{op}": (backend, op) for backend in ("torch", "cpu") for op in ("softmax", "min")}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Call:
    backend, op = CALLS[request.param]
    if backend == "cpu":
        pytest.importorskip("numba")
    method: Call = getattr(kernelzoo.get(backend), op)
    return method


X = torch.arange(15.0).view(3, 5).sin()


@pytest.mark.filterwarnings("ignore:The PyTorch API of")  # torch's own prototypes
@pytest.mark.parametrize(
    "transform",
    [
        lambda call: torch.vmap(call)(X),
        lambda call: torch.func.jvp(call, (X,), (X,)),
        lambda call: torch.func.functionalize(call)(X),
        lambda call: call(torch._to_functional_tensor(X)),
        lambda call: torch.jit.trace(lambda x: call(x), X),
        lambda call: torch.fx.symbolic_trace(lambda x: call(x)),
        lambda call: call(torch.nested.nested_tensor([X[0], X[1, :3]])),
        lambda call: call(torch.nested.nested_tensor([X[0], X[1, :3]], layout=torch.jagged)),
        lambda call: call(masked_tensor(X, X > 0)),
    ],
    ids=["vmap", "jvp", "functionalize", "functional", "jit", "fx", "nested", "jagged", "masked"],
)
def test_what_holds_no_memory_is_refused(call: Call, transform: Callable[[Call], Any]) -> None:
    with pytest.raises(InputTypeError):
        transform(call)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.hessian])
def test_a_gradient_s_transform_is_refused(call: Call, transform: Any) -> None:
    with pytest.raises(GradientError):
        transform(lambda x: call(x).sum())(X)


def test_a_tangent_is_never_dropped(call: Call) -> None:
    right = call(X)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, torch.ones_like(X))
        with pytest.raises(GradientError, match="tangent"):
            call(dual)
        assert torch.equal(call(dual.detach()), right) and torch.equal(call(X), right)
        with pytest.raises(OutputError, match="tangent"):
            call(X, out=forward_ad.make_dual(right.clone(), right))


def test_what_torch_traces_is_right_or_refused(call: Call, request: pytest.FixtureRequest) -> None:
    """Torch sees its own kernels alone. A trace of another would give this call's result for ever."""

    def fake() -> Tensor:
        return call(FakeTensorMode().from_tensor(X))  # type: ignore[no-any-return]

    def real_in_a_fake_mode() -> Tensor:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return call(X)  # type: ignore[no-any-return]

    def made() -> Tensor:
        return make_fx(lambda x: call(x))(X)(X * 2)  # type: ignore[no-any-return]

    for trace in (fake, real_in_a_fake_mode, made):
        if "[torch" in request.node.name:
            assert trace().shape == call(X).shape
        else:
            with pytest.raises(InputTypeError, match="torch is tracing"):
                trace()
    if "[torch" in request.node.name:
        assert torch.equal(made(), call(X * 2))


@pytest.mark.parametrize("id", ["torch/softmax/naive", "cpu/softmax/auto"])
def test_a_launch_of_what_torch_traces_is_refused(id: str) -> None:
    """Bound to a fake tensor it would read what is no memory."""
    implementation = kernelzoo.implementation(id)
    if implementation.backend == "cpu":
        pytest.importorskip("numba")
        with FakeTensorMode(), pytest.raises(InputTypeError, match="torch is tracing"):
            implementation.launch(torch.empty(3, 5), out=torch.empty(3, 5))
    with forward_ad.dual_level(), pytest.raises(GradientError, match="tangent"):
        implementation.launch(forward_ad.make_dual(X, X), out=torch.empty(3, 5))
    with pytest.raises(InputTypeError, match="must be a"):
        implementation.launch([1.0], out=torch.empty(3, 5))


@pytest.mark.parametrize("keepdim", [torch.tensor(True), torch.tensor([True, False]), None, 1, "yes", [True]], ids=repr)
def test_keepdim_is_a_bool(keepdim: Any) -> None:
    with pytest.raises(InputTypeError, match="keepdim is a bool"):
        kernelzoo.get("torch").min(X, keepdim=keepdim)


@pytest.mark.parametrize("dim", [torch.tensor(0), (torch.tensor(0),), None, [0]], ids=repr)
def test_an_axis_is_an_int(dim: Any) -> None:
    for call in (kernelzoo.get("torch").min, kernelzoo.get("torch").softmax):
        with pytest.raises(kernelzoo.AxisError):
            call(X, dim)
