"""What is raised, called or asked for survives a pickle, and so a pool of processes."""

import ast
import copy
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import commands
import pytest
import torch
from registered import forget, forget_operation

import kernelzoo
from kernelzoo import errors
from kernelzoo.check.fuzz import running
from kernelzoo.measure import worker_process
from kernelzoo.measure.judge import apart

pytestmark = pytest.mark.slow

PACKAGE = Path(kernelzoo.__file__).parent


def exception_classes() -> list[type[BaseException]]:
    """All that the package defines; only modules that define one are imported."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(base).endswith(("Error", "Exception", "Warning")) for base in node.bases)
        ]
        if names:
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts))
            found += [getattr(module, name) for name in names]
    return found


MADE: dict[type[BaseException], Callable[[], BaseException]] = {
    errors.UnknownNameError: lambda: errors.UnknownNameError("operation", "sofmax", (n for n in ("softmax", "min"))),
    errors.BackendUnavailableError: lambda: errors.BackendUnavailableError("cupy", "no driver", "install one"),
    errors.LaunchError: lambda: errors.LaunchError("mine/softmax/simple", None),
    errors.UnsupportedProblemError: lambda: errors.UnsupportedProblemError("mine/softmax/simple", "too long"),
    errors.GridTooLargeError: lambda: errors.GridTooLargeError("mine/softmax/simple", 2**40, 2**31 - 1),
    errors.DeviceLostError: lambda: errors.DeviceLostError("mine/softmax/simple", "an illegal access"),
    errors.ContractError: lambda: errors.ContractError(
        "is wrong", "wrong value", place=(1, 2), got=2.0, expected="1.0", error=3.5, unit="ulp"
    ),
    apart.RaisedError: lambda: apart.RaisedError("failed", "it was wrong"),
    worker_process.DiedError: lambda: worker_process.DiedError("mine/softmax/simple", "it was killed"),
    running._RaisedError: lambda: running._RaisedError("raised", errors.LaunchError("mine/softmax/simple", 3)),
}
"""How the package makes those that have an ``__init__`` of their own."""


def told(error: BaseException) -> object:
    """All that there is to an exception, exceptions among its fields likewise."""
    fields = {key: told(value) if isinstance(value, BaseException) else value for key, value in vars(error).items()}
    builtin = [getattr(error, name, None) for name in ("msg", "name", "path")]  # of an ImportError
    return type(error), str(error), error.args, fields, builtin


@pytest.mark.parametrize("kind", exception_classes(), ids=lambda kind: kind.__name__)
def test_an_exception_keeps_its_message_and_fields(kind: type[BaseException]) -> None:
    assert ("__init__" in vars(kind)) == (kind in MADE), "say in MADE how the package makes it"
    error = MADE[kind]() if kind in MADE else kind("what is wrong, and what to do")
    if kind in MADE and kind is not errors.UnknownNameError:
        assert vars(error)
    error.add_note("a note")
    for again in (*(pickle.loads(pickle.dumps(error, protocol)) for protocol in range(6)), copy.deepcopy(error)):
        assert told(again) == told(error)


def test_what_a_pool_s_processes_raise_and_call() -> None:
    """An exception that can't be unpickled would leave the pool waiting for ever."""
    code = """
import multiprocessing, kernelzoo
from kernelzoo.errors import GridTooLargeError

def refused(blocks):
    raise GridTooLargeError("mine/softmax/simple", blocks, 7)

with multiprocessing.get_context("fork").Pool(1) as pool:
    for call, given in ((kernelzoo.implementation, "torch/softmax/eger"), (refused, 8)):
        try:
            pool.apply_async(call, (given,)).get(60)
        except kernelzoo.KernelZooError as error:
            print(type(error).__name__, getattr(error, "reason", error))
    print(pool.apply(kernelzoo.backends) == kernelzoo.backends())
import pickle
print(pickle.loads(b"\\x80\\x04ckernelzoo.calls.backend\\nBackend.softmax\\n.").__name__)  # before any was asked for
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    unknown, refused, goes_on, method = done.stdout.splitlines()
    assert "did you mean" in unknown and refused == "GridTooLargeError it needs 8 blocks, a grid holds 7"
    assert goes_on == "True" and method == "softmax"


PUBLIC = sorted({*kernelzoo.__all__, *kernelzoo.operations.BUILT_IN} - {"__version__"})


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_pickled_by_its_name(name: str) -> None:
    public = getattr(kernelzoo, name)
    for protocol in range(2, 6):
        again = pickle.loads(pickle.dumps(public, protocol))
        assert again is public or (isinstance(public, tuple) and again == public)
    if name in kernelzoo.operations.BUILT_IN:
        assert (public.__module__, public.__qualname__) == ("kernelzoo", name)
        method = getattr(kernelzoo.Backend, name)
        assert pickle.loads(pickle.dumps(method)) is method
        bound = getattr(kernelzoo.get("torch"), name)
        assert pickle.loads(pickle.dumps(bound)) == bound
        assert pickle.loads(pickle.dumps(bound.__self__)) is copy.deepcopy(bound.__self__) is bound.__self__


MODULE = '''
import torch, kernelzoo

@kernelzoo.operation()
class {name}:
    """Twice x."""
    x = kernelzoo.Input("outer n inner")
    out = kernelzoo.Output("outer n inner")
    def reference(x):
        return 2 * x

@kernelzoo.register("{name}_torch", "{name}", "auto")
def auto(x, out):
    return lambda: out.copy_(2 * x)
'''


def test_a_user_s_operation_is_pickled_with_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its function, a backend that has it, and its method: another process imports the module before it asks."""
    name = "twice_pickled"
    (tmp_path / f"{name}_module.py").write_text(MODULE.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        importlib.import_module(f"{name}_module")
        function, backend = getattr(kernelzoo, name), kernelzoo.get(f"{name}_torch")
        assert function.__doc__ == "Twice x." and torch.equal(function(torch.ones(2)), torch.full((2,), 2.0))
        held = pickle.dumps((function, backend, getattr(backend, name), getattr(kernelzoo.Backend, name)))
        assert pickle.loads(held)[:2] == (function, backend)
        (tmp_path / "held").write_bytes(held)
    finally:
        forget(f"{name}_torch")
        forget_operation(name)
        vars(kernelzoo).pop(name, None)
    code = f"""
import pickle, torch
function, backend, method, unbound = pickle.loads(open({str(tmp_path / "held")!r}, "rb").read())
x = torch.ones(2)
print(*[int(found.sum()) for found in (function(x), backend.{name}(x), method(x), unbound(backend, x))])
"""
    status, out, err = commands.run(tmp_path, ["-c", code])
    assert (status, out.split()) == (0, ["4"] * 4), err
