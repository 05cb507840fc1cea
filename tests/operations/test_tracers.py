"""Under everything of torch's that traces, a call does what torch's own does there: one table, cell by cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import warm
from commands import ROOT
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

import kernelzoo
import kernelzoo.nn

pytestmark = pytest.mark.slow

Tensor = torch.Tensor
Call = Callable[..., Any]

BACKEND = kernelzoo.get("torch")
X = torch.linspace(-1, 3, 12).view(4, 3).cos()
X[0, 0] = 0.5


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# --- The rows: calls, by each of two functions ------------------------------------------------------------------------


class Row:
    """A call of an operation, and torch's for it; ``few``: one of those that every column has."""

    def __init__(self, op: str, call: Callable[[Call, Tensor], Tensor], *, few: bool = False, method: bool = False):
        self.own = getattr(BACKEND if method else kernelzoo, op)
        self.torchs = {"softmax": torch.softmax, "min": torch.amin}[op]
        self.call, self.few = call, few

    def both(self) -> tuple[Call, Call]:
        return partial(self.call, self.own), partial(self.call, self.torchs)


def _into(call: Call, x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    call(x * 2, 0, out=out)
    return out + 1


def _into_row(call: Call, x: Tensor) -> Tensor:
    out = torch.empty_like(x[0])
    return call(x, 0, out=out)  # type: ignore[no-any-return]


def _over_all(call: Call, x: Tensor) -> Tensor:
    return call(x, () if call is torch.amin else None)  # type: ignore[no-any-return]


ROWS = {
    "softmax(x, 0)": Row("softmax", lambda call, x: call(x, 0)),
    "softmax(x, dim=-1)": Row("softmax", lambda call, x: call(x, dim=-1)),
    "softmax(x, axis=1)": Row("softmax", lambda call, x: call(x, axis=1)),
    "softmax(x, 1, dtype=)": Row("softmax", lambda call, x: call(x, 1, dtype=torch.float64), few=True),
    "softmax(x, 0, out=)": Row("softmax", _into, few=True),
    "softmax of a row": Row("softmax", lambda call, x: call(x[0], 0)),
    "min(x, 0)": Row("min", lambda call, x: call(x, 0), few=True),
    "min(x, (0, 1))": Row("min", lambda call, x: call(x, (0, 1))),
    "min(x, [0, 1])": Row("min", lambda call, x: call(x, [0, 1])),
    "min(x, None)": Row("min", _over_all, few=True),
    "min(x, -1, keepdim=True)": Row("min", lambda call, x: call(x, -1, keepdim=True)),
    "min(x, axis=0)": Row("min", lambda call, x: call(x, axis=0)),
    "min(x, 0, out=)": Row("min", _into_row, few=True),
    "backend.softmax(x, 0)": Row("softmax", lambda call, x: call(x, 0), few=True, method=True),
    "backend.min(x, (0,))": Row("min", lambda call, x: call(x, (0,)), method=True),
    "backend.min(x, 0, out=)": Row("min", _into_row, method=True),
}

# --- The columns: tracers ---------------------------------------------------------------------------------------------


def _compiled(function: Call, mark: Call | None = None, **options: Any) -> Any:
    x = X.clone()
    if mark is not None:
        mark(x, 0)
    compiled = torch.compile(function, fullgraph=True, **options)
    return compiled(x), compiled(torch.cat([X, X + 1]))


def _with_gradients(function: Call, **options: Any) -> Any:
    """Of the input, in one graph."""

    def gradient(x: Tensor) -> Any:
        x = x.clone().requires_grad_()
        y = torch.compile(function, fullgraph=True, backend="aot_eager", **options)(x)
        return y.detach(), torch.autograd.grad(y.square().sum(), x)[0]

    return gradient(X), gradient(torch.cat([X, X + 1]))


def _masked(function: Call) -> Call:
    return lambda x: function(x[x[:, 0] > 0])


def _nonzero(function: Call) -> Call:
    return lambda x: function(x[:, 0].nonzero().float())


def _sliced(function: Call) -> Call:
    def sliced(x: Tensor) -> Any:
        size: Any = (x[:, 0] > 0).sum().item()
        torch._check(size >= 1)
        torch._check(size <= x.shape[0])
        return function(x[:size])

    return sliced


def _sized(function: Call) -> Call:
    return lambda x: function(x.new_ones((x[:, 0] > 0).sum().item(), 3))


OF_DATA = {"mask": _masked, "nonzero": _nonzero, "slice": _sliced, "size": _sized}
"""How many elements there are, only the data will tell."""


def _compiled_of_data(function: Call, made: Callable[[Call], Call]) -> Any:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        return _compiled(made(function), backend="aot_eager")


class Module(torch.nn.Module):
    def __init__(self, function: Call) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def _exported(function: Call, strict: bool, sizes: Any) -> Any:
    program = export(Module(function), (X,), dynamic_shapes=(sizes,) if sizes else None, strict=strict).module()
    return program(X), program(torch.cat([X, X, X, X]) + 1) if sizes else None


SIZES: dict[str, Callable[[], Any]] = {
    "static": lambda: None,
    "Dim": lambda: {0: Dim("a"), 1: Dim("b")},
    "AUTO": lambda: {0: Dim.AUTO, 1: Dim.AUTO},
    "DYNAMIC": lambda: {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
    "bounded": lambda: {0: Dim("a", min=2, max=99)},
    "derived": lambda: {0: 2 * Dim("a")},
}


def _made_fx(function: Call, mode: str, **options: Any) -> Any:
    graph = make_fx(lambda x: function(x), tracing_mode=mode, **options)(X)
    return graph(X), graph(X.flip(1)), graph(torch.cat([X, X]) + 1) if mode == "symbolic" else None


def _shown(y: Tensor) -> Any:
    return tuple(y.shape), y.stride(), y.dtype, y.device


def _fake(function: Call) -> Any:
    with FakeTensorMode() as mode:
        return _shown(function(mode.from_tensor(X)))


def _symbolic_trace(function: Call) -> Any:
    graph = torch.fx.symbolic_trace(Module(function))
    return graph(X), graph(torch.cat([X, X]))


COLUMNS: dict[str, Call] = {
    "make_fx real": partial(_made_fx, mode="real"),
    "make_fx real, before dispatch": partial(_made_fx, mode="real", pre_dispatch=True),
    "make_fx fake": partial(_made_fx, mode="fake"),
    "make_fx symbolic": partial(_made_fx, mode="symbolic"),
    "make_fx symbolic, before dispatch": partial(_made_fx, mode="symbolic", pre_dispatch=True),
    "FakeTensorMode": _fake,
    "meta": lambda function: _shown(function(X.to("meta"))),
    "symbolic_trace": _symbolic_trace,
    **{f"export {sizes}": lambda f, made=made: _exported(f, False, made()) for sizes, made in SIZES.items()},
}
FEW: dict[str, Call] = {
    "compile": partial(_compiled, backend="eager"),
    "compile aot": partial(_compiled, backend="aot_eager"),
    "compile dynamic": partial(_compiled, backend="aot_eager", dynamic=True),
    "compile mark_dynamic": partial(_compiled, mark=torch._dynamo.mark_dynamic, backend="aot_eager"),
    "compile mark_unbacked": partial(_compiled, mark=torch._dynamo.decorators.mark_unbacked, backend="aot_eager"),
    "compile with gradients": _with_gradients,
    "compile dynamic with gradients": partial(_with_gradients, dynamic=True),
    **{f"compile {name}": partial(_compiled_of_data, made=made) for name, made in OF_DATA.items()},
    **{f"export strict {sizes}": lambda f, made=made: _exported(f, True, made()) for sizes, made in SIZES.items()},
    **{
        f"export {'strict ' * strict}{name}": lambda f, made=made, strict=strict: _exported(
            made(f), strict, {0: Dim("a")}
        )
        for name, made in OF_DATA.items()
        for strict in (False, True)
    },
    **{
        f"make_fx symbolic {name}": lambda f, made=made: _made_fx(made(f), "symbolic") for name, made in OF_DATA.items()
    },
}
"""Those that take longer, of which few rows are enough."""

CELLS = [
    pytest.param(column, row, marks=() if (i + j) % 3 == 0 else pytest.mark.nightly)
    for columns, rows in ((COLUMNS, ROWS), (FEW, [row for row, said in ROWS.items() if said.few]))
    for i, column in enumerate(columns)
    for j, row in enumerate(rows)
]
"""A usual run takes some cells of each column and each row."""


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # torch's own, of either call
@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
@pytest.mark.parametrize(("column", "row"), CELLS)
def test_a_cell(column: str, row: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Where torch's call works, ours gives the same; where torch refuses, ours may."""
    own, torchs = ROWS[row].both()
    traced = {**COLUMNS, **FEW}[column]
    try:
        right = traced(torchs)
    except Exception as error:  # whatever torch refuses with
        pytest.skip(f"torch refuses its own: {type(error).__name__}")
    torch._dynamo.reset()
    found = traced(own)
    if isinstance(right[0], Tensor | tuple) and column not in ("FakeTensorMode", "meta"):
        torch.testing.assert_close(found, right)
    else:
        assert found == right


# --- What has no row of its own ---------------------------------------------------------------------------------------


def test_a_graph_says_the_operation() -> None:
    """By name; of the public function, which has no device yet, the function itself."""
    graph = make_fx(lambda x: kernelzoo.softmax(x, 0))(X).graph
    assert torch.ops.kernelzoo.softmax.default in [node.target for node in graph.nodes]
    graph = torch.fx.symbolic_trace(lambda x: kernelzoo.softmax(x, 0) + BACKEND.min(x, 0)).graph
    targets = [node.target for node in graph.nodes]
    assert kernelzoo.softmax in targets and torch.ops.kernelzoo.min.default in targets


@pytest.mark.parametrize("shape", [(3,), (4, 4)])
def test_an_output_of_another_shape_is_refused_as_torch_traces(shape: tuple[int, ...]) -> None:
    for call in (kernelzoo.softmax, BACKEND.softmax):
        with FakeTensorMode() as mode, pytest.raises(kernelzoo.OutputError, match="shape"):
            call(mode.from_tensor(X), out=torch.empty(shape))


def test_a_fake_tensor_of_a_gpu_that_is_not_there() -> None:
    with FakeTensorMode():
        y = kernelzoo.softmax(torch.empty(3, 4, device="cuda"))
    assert y.device.type == "cuda" and y.shape == (3, 4)


def _softmax(x: Tensor) -> Tensor:
    return kernelzoo.softmax(x, 0)


def _got(x: Tensor) -> Tensor:
    return kernelzoo.get("torch").softmax(x, 0)  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "function",
    [_softmax, _got, kernelzoo.min, BACKEND.min, kernelzoo.nn.Softmax(0), kernelzoo.nn.RMSNorm(5)],
    ids=("calls", "gets", "function", "method", "module", "norm"),
)
def test_a_script_is_refused_with_what_to_call(function: Any) -> None:
    with pytest.raises(RuntimeError, match=r"torch\.ops\.kernelzoo"):
        torch.jit.script(function)


def _named(x: Tensor) -> Tensor:
    return torch.ops.kernelzoo.softmax(x, 0, "torch", "auto")  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_what_a_script_may_call_instead() -> None:
    torch.testing.assert_close(torch.jit.script(_named)(X), torch.softmax(X, 0))


FIRST = """
import numpy, torch, kernelzoo
a = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
right = torch.softmax(torch.from_numpy(a), 0)
for function in (
    {function},
    lambda x: kernelzoo.softmax(x, 0, dtype=torch.float32),
    lambda x: kernelzoo.softmax(x, 0, out=torch.empty_like(x) if isinstance(x, torch.Tensor) else numpy.empty_like(x)),
):
    for x in (a, torch.from_numpy(a))[::{step}]:
        torch.compiler.reset()
        found = torch.compile(function, fullgraph=True, backend="eager")(x)
        assert type(found) is type(x), type(found)
        torch.testing.assert_close(torch.as_tensor(found), right)
"""


def test_numpy_s_arrays_compiled_in_the_first_call_of_a_process() -> None:
    """A tensor or an array, the first of a process, is compiled whole, and the result is of its kind."""
    function, method = (f"lambda x: {owner}.softmax(x, 0)" for owner in ("kernelzoo", "kernelzoo.get('torch')"))
    for call, step in ((function, 1), (method, 1), (method, -1)):
        status, _, said = warm.run(["-c", FIRST.format(function=call, step=step)], str(ROOT), dict(os.environ))
        assert not status, (call, step, said[-2000:])
