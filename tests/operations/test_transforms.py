"""Tensors that torch wraps, traces or differentiates: a call is right, or raises a named error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from running_here import backends
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.masked import masked_tensor

import kernelzoo
import kernelzoo.nn
from kernelzoo import InputTypeError, OutputError
from kernelzoo.calls import torch_library

Tensor = torch.Tensor
Call = Callable[..., Any]

DEVICES = backends()
CALLS = {f"{backend}/{op}": (backend, op) for backend in DEVICES for op in ("softmax", "min")}
TORCHS = {"softmax": lambda x, dim=-1: torch.softmax(x, dim), "min": lambda x, dim=-1: torch.amin(x, dim)}


class Given:
    """One operation of one backend, torch's own, and an input."""

    def __init__(self, backend: str, op: str) -> None:
        self.call: Call = getattr(kernelzoo.get(backend), op)
        self.right: Call = TORCHS[op]
        self.backend, self.op, self.device = backend, op, DEVICES[backend]
        self.x = torch.arange(15.0).view(3, 5).sin().to(self.device)

    def check(self, transform: Callable[[Call], Any]) -> None:
        torch.testing.assert_close(transform(self.call), transform(self.right))


@pytest.fixture(params=CALLS)
def given(request: pytest.FixtureRequest) -> Given:
    return Given(*CALLS[request.param])


TRANSFORMS: dict[str, Callable[[Call, Tensor], Any]] = {
    "vmap": lambda call, x: torch.vmap(call)(x),
    "vmap over an axis behind": lambda call, x: torch.vmap(lambda x: call(x, 0), in_dims=1)(x),
    "vmap of vmap": lambda call, x: torch.vmap(torch.vmap(call))(x.expand(2, 3, 5)),
    "vmap of scalars": lambda call, x: torch.vmap(lambda x: call(x, 0))(x[0]),
    "jvp": lambda call, x: torch.func.jvp(call, (x,), (x.cos(),)),
    "grad": lambda call, x: torch.func.grad(lambda x: call(x).square().sum())(x),
    "jacrev": lambda call, x: torch.func.jacrev(call)(x),
    "jacfwd": lambda call, x: torch.func.jacfwd(call)(x),
    "hessian": lambda call, x: torch.func.hessian(lambda x: call(x).square().sum())(x[:2, :3]),
    "gradients of each sample": lambda call, x: torch.vmap(torch.func.grad(lambda x: call(x).square().sum()))(x),
    "functionalize": lambda call, x: torch.func.functionalize(call)(x),
    "functional": lambda call, x: torch._from_functional_tensor(call(torch._to_functional_tensor(x))),
    "inference": lambda call, x: _in_inference(call, x),
}


def _in_inference(call: Call, x: Tensor) -> Tensor:
    with torch.inference_mode():
        return call(x).clone()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_right(given: Given, name: str) -> None:
    given.check(lambda call: TRANSFORMS[name](call, given.x))


@pytest.mark.filterwarnings("ignore:The PyTorch API of")  # torch's own prototypes
@pytest.mark.filterwarnings("ignore:.* is not implemented in __torch_dispatch__")
@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.nested.nested_tensor([x[0], x[1, :3]]),
        lambda x: torch.nested.nested_tensor([x[0], x[1, :3]], layout=torch.jagged),
        lambda x: masked_tensor(x, x > 0),
    ],
    ids=["nested", "jagged", "masked"],
)
def test_what_holds_no_memory_is_refused(given: Given, make: Callable[[Tensor], Any]) -> None:
    with pytest.raises(InputTypeError):
        given.call(make(given.x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_jit_is_refused(given: Given) -> None:
    """After calls whose launches are kept, too."""
    for _ in range(2):
        given.call(given.x)
    with pytest.raises(InputTypeError, match="jit"):
        torch.jit.trace(lambda x: given.call(x), given.x)


def test_a_batch_of_what_has_no_gradient() -> None:
    """Integers lose none, and other results are refused where they would."""
    x, batch = torch.randn(3, 5), torch.func.vmap(kernelzoo.quantize_rows)
    for found, right in zip(batch(x), kernelzoo.quantize_rows(x), strict=True):
        assert torch.equal(found.float(), right.float())
    for given in (x, x.clone().requires_grad_()):
        for call in (kernelzoo.argmin, torch.func.vmap(kernelzoo.argmin)):
            assert torch.equal(call(given), x.argmin(-1))
    with pytest.raises(kernelzoo.GradientError):
        batch(given)
    with pytest.raises(kernelzoo.GradientError):
        torch.func.jvp(kernelzoo.quantize_rows, (x,), (x,))


def test_an_empty_batch() -> None:
    """Its results have shapes too, where it is no axis of rows, and gradients."""
    x = torch.empty(0, 5, requires_grad=True)
    found = torch.func.vmap(kernelzoo.rms_norm)(x, torch.ones(0, 5))
    assert found.shape == (0, 5) and torch.autograd.grad(found.sum(), x)[0].shape == (0, 5)


def test_a_tangent_is_never_dropped(given: Given) -> None:
    right = given.call(given.x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(given.x, torch.ones_like(given.x))
        found, wanted = forward_ad.unpack_dual(given.call(dual)), forward_ad.unpack_dual(given.right(dual))
        torch.testing.assert_close(found.primal, wanted.primal)
        torch.testing.assert_close(found.tangent, wanted.tangent)
        assert torch.equal(given.call(dual.detach()), right) and torch.equal(given.call(given.x), right)
        with pytest.raises(OutputError, match="tangent"):
            given.call(given.x, out=forward_ad.make_dual(right.clone(), right))


def test_fake_tensors(given: Given) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for x in (mode.from_tensor(given.x), given.x):
            found = given.call(x, 0)
            assert isinstance(found, FakeTensor) and found.shape == given.right(given.x, 0).shape
            assert found.device == given.x.device
        with pytest.raises(kernelzoo.AxisError):
            given.call(mode.from_tensor(given.x), 2)
        with pytest.raises(kernelzoo.UnknownNameError):
            given.call(mode.from_tensor(given.x), variant="none")


def test_a_launch_of_what_torch_traces_is_refused() -> None:
    """Bound to a fake tensor it would read what is no memory."""
    implementation = kernelzoo.implementation("torch/softmax/naive")
    x = torch.ones(3, 5)
    with forward_ad.dual_level(), pytest.raises(kernelzoo.GradientError, match="tangent"):
        implementation.launch(forward_ad.make_dual(x, x), out=torch.empty(3, 5))
    with pytest.raises(InputTypeError, match="must be a"):
        implementation.launch([1.0], out=torch.empty(3, 5))
    if "cpu" in DEVICES:
        with FakeTensorMode(), pytest.raises(InputTypeError, match="torch is tracing"):
            kernelzoo.implementation("cpu/softmax/auto").launch(torch.empty(3, 5), out=torch.empty(3, 5))


# --- torch.compile, torch.export, torch.library -----------------------------------------------------------------------


@pytest.fixture
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_fresh_dynamo")
def test_compiled_whole(given: Given) -> None:
    """One graph, by the backend's name and by its method; results and gradients as without."""

    def step(x: Tensor, call: Call) -> Tensor:
        return call(x * 2, 0).square().sum()  # type: ignore[no-any-return]

    def named(x: Tensor) -> Tensor:
        return step(x, getattr(kernelzoo.get(given.backend), given.op))

    def method(x: Tensor) -> Tensor:
        return step(x, given.call)

    x = given.x.clone().requires_grad_()
    right = torch.autograd.grad(step(x, given.right), x)
    for function in (named, method):
        compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
        torch.testing.assert_close(torch.autograd.grad(compiled(x), x), right)
        with torch.no_grad():
            torch.testing.assert_close(compiled(given.x.double()), step(given.x.double(), given.right))


@pytest.mark.usefixtures("_fresh_dynamo")
def test_the_best_backend_and_a_module_compiled() -> None:
    x = torch.ones(3, 5)
    for function in (kernelzoo.softmax, kernelzoo.nn.Softmax(), kernelzoo.nn.Softmax(0, "torch"), kernelzoo.min):
        kernelzoo.calls.backend._best.clear()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), function(x)) and torch.equal(compiled(x), function(x))


class Exported(torch.nn.Module):
    def __init__(self, backend: str, op: str) -> None:
        super().__init__()
        self.backend, self.op = backend, op

    def forward(self, x: Tensor) -> Tensor:
        return getattr(kernelzoo.get(self.backend), self.op)(x, 0)  # type: ignore[no-any-return]


def test_exported(given: Given, tmp_path: Path) -> None:
    """With axes of any size, saved, and loaded again."""
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("columns")}
    program = torch.export.export(Exported(given.backend, given.op), (given.x,), dynamic_shapes=(sizes,), strict=False)
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    for x in (given.x, torch.randn(7, 2, device=given.device)):
        torch.testing.assert_close(loaded(x), given.right(x, 0))


@pytest.mark.parametrize("op", ["softmax", "min", "softmax_backward", "min_backward"])
@pytest.mark.parametrize("backend", DEVICES)
@pytest.mark.parametrize("dim", [0, -1])
def test_torch_s_check_of_an_operation(backend: str, op: str, dim: int) -> None:

    operation = kernelzoo.operations.OPERATIONS[op]
    drawn = operation.sample((3, 5), "float64", dim, generator=torch.Generator().manual_seed(0))
    inputs = [x.to(DEVICES[backend]) for x in drawn]
    for x in inputs if op in ("softmax", "min", "softmax_backward") else inputs[2:]:
        x.requires_grad_()
    call = torch_library.Call(kernelzoo.get(backend), operation, dim, False, {}, "auto")
    found = torch.library.opcheck(torch_library.overload(operation), torch_library._flatten_call(call, inputs))
    assert set(found.values()) == {"SUCCESS"}


# --- Wrappers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Four processes of which this is one, and which send nothing."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield init_device_mesh("cpu", (4,))
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
@pytest.mark.parametrize("backend", [name for name, device in DEVICES.items() if device == "cpu"])
def test_shards_of_rows(backend: str, mesh: Any) -> None:
    """Rows stay where they are, with their gradients, and nothing is sent."""
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor.debug import CommDebugMode

    owner, local = kernelzoo.get(backend), torch.randn(2, 6, 5)
    for place, dim in ((0, 2), (0, 1), (1, 2), (2, 1)):
        x = DTensor.from_local(local, mesh, [Shard(place)], run_check=False).requires_grad_()
        with CommDebugMode() as sent:
            y = owner.softmax(x, dim)
            least = owner.min(x, dim)
            y.square().sum(dim).to_local().sum().backward()
        assert sent.get_total_counts() == 0
        assert y.placements == x.grad.placements == (Shard(place),)
        assert least.placements == (Shard(place - (dim < place)),)
        torch.testing.assert_close(y.to_local(), torch.softmax(local, dim))
        torch.testing.assert_close(least.to_local(), torch.amin(local, dim))


def test_a_plain_subclass_is_taken(given: Given) -> None:
    class Named(torch.Tensor):
        pass

    torch.testing.assert_close(given.call(given.x.as_subclass(Named)).as_subclass(Tensor), given.right(given.x))


# --- On a GPU ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_gpu(given: Given) -> Given:
    if given.device != "cuda":
        pytest.skip("there is no GPU here, or the backend takes none")
    return given


def test_autocast(on_gpu: Given) -> None:
    """As torch: softmax in float32, a minimum as it comes; eager, and with a gradient."""
    given = on_gpu
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = given.x.to(dtype).requires_grad_()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found, right = given.call(x), given.right(x)
            with torch.no_grad():
                assert given.call(x.detach()).dtype == right.dtype
        assert found.dtype == right.dtype
        torch.testing.assert_close(found, right)
        grads = [torch.autograd.grad(y.sum() + y.square().sum(), x)[0] for y in (found, right)]
        torch.testing.assert_close(*grads)
        assert given.call(x.detach()).dtype == dtype


def test_a_training_step_in_a_graph(on_gpu: Given) -> None:
    """Forward and backward captured as one CUDA graph."""
    given = on_gpu
    x = torch.randn(64, 300, device="cuda", requires_grad=True)
    seed = torch.randn(64, 300, device="cuda") if given.op == "softmax" else torch.randn(64, device="cuda")

    def step() -> Tensor:
        (grad,) = torch.autograd.grad(given.call(x), x, seed)
        return grad

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        grad = step()
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(grad, torch.autograd.grad(given.right(x), x, seed)[0])


# --- Arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "given"),
    [
        ("keepdim is a bool", (torch.tensor(True), torch.tensor([True, False]), None, 1, "yes", [True])),
        ("eps is a float", (torch.tensor(0.5), "a", None, True)),
        ("ignore_index is an int of 64 bits", (torch.tensor(1), "a", None, 1.5, True, 2**63, -(2**63) - 1)),
    ],
)
def test_what_is_said_by_name_is_of_its_kind(told: str, given: tuple[Any, ...]) -> None:
    name, x, labels = told.split()[0], torch.ones(3, 5), torch.zeros(3).long()
    op, *rest = {"keepdim": ("min",), "eps": ("rms_norm", x[0]), "ignore_index": ("cross_entropy", labels)}[name]
    for one in given:
        with pytest.raises(InputTypeError, match=told):
            getattr(kernelzoo.get("torch"), op)(x, *rest, **{name: one})


def test_a_scalar_may_be_another_number() -> None:
    backend, x = kernelzoo.get("torch"), torch.ones(3, 5)
    for eps in (1, Fraction(1), np.float32(1)):
        assert torch.equal(backend.rms_norm(x, x[0], eps=eps), backend.rms_norm(x, x[0], eps=1.0))
    assert backend.cross_entropy(x, torch.zeros(3).long(), ignore_index=np.int64(0)).tolist() == [0, 0, 0]
