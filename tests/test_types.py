"""What type checkers see of the operations: their real signatures, and no name that is not there."""

import __future__

import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType

import pytest

import kernelzoo
from kernelzoo.calls.methods import signature_of

pytestmark = pytest.mark.slow

ROOT = Path(kernelzoo.__file__).parent.parent
FILE = Path(kernelzoo.__file__).with_name("signatures.pyi")
signatures = ModuleType("signatures")
exec(compile(FILE.read_text(encoding="utf-8"), FILE, "exec", __future__.annotations.compiler_flag), vars(signatures))
USES = """
from typing import Any, assert_type
import numpy as np
import numpy.typing as npt
import torch
import kernelzoo

class Array:
    def __dlpack__(self, *, stream: object = None) -> object:
        return None
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

backend, x, array = kernelzoo.get("torch"), torch.zeros(2, 3), np.zeros((2, 3), np.float32)
assert_type(kernelzoo.softmax(x, dim=1, dtype=torch.float32, out=None), torch.Tensor)
assert_type(backend.softmax(torch.nn.Parameter(x), axis=np.int64(1), variant="eager", out=x), torch.Tensor)
assert_type(kernelzoo.min(x, [0, 1], keepdims=True), torch.Tensor)
assert_type(backend.min(array, axis=None, keepdim=True), npt.NDArray[Any])
assert_type(kernelzoo.softmax(array, -1, dtype="float64", out=array), npt.NDArray[Any])
assert_type(kernelzoo.softmax(Array()), Any)
assert_type(backend.softmax_backward(x, x), torch.Tensor)
assert_type(backend.softmax_pairs(x), tuple[torch.Tensor, torch.Tensor])
assert_type(kernelzoo.vecdot(array, array), npt.NDArray[Any])
assert_type(getattr(backend, "declared_by_a_user"), Any)
assert_type(kernelzoo.errors.closest_names("a", ["b"]), list[str])
kernelzoo.softmaxx(x)  # wrong
kernelzoo.Protocol  # wrong
kernelzoo.softmax(x, dimm=3)  # wrong
kernelzoo.softmax(x, dim="1")  # wrong
kernelzoo.softmax(x, keepdim=True)  # wrong
kernelzoo.softmax([1.0])  # wrong
kernelzoo.min(x, dtype=torch.float32)  # wrong
kernelzoo.softmax(x).of_no_tensor()  # wrong
backend.softmaxx(x)  # wrong
backend.min(x, dimm=3)  # wrong
backend.softmax_backward(x)  # wrong
backend.declared_by_a_user(x)  # wrong
kernelzoo.vecdot(x, array)  # wrong
"""
WRONG = {number for number, line in enumerate(USES.splitlines(), 1) if line.endswith("# wrong")}


def run(*command: str) -> str:
    """What a type checker says; where the package is installed, it finds it by itself, and wants to."""
    here = {} if ROOT.name == "site-packages" else {"MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    folder = Path(command[-1]).parent
    return subprocess.run(command, cwd=folder, env={**os.environ, **here}, capture_output=True, text=True).stdout


@pytest.mark.nightly
def test_mypy_sees_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(USES)
    said = run(sys.executable, "-m", "mypy", "--strict", str(tmp_path / "uses.py"))
    assert {int(line) for line in re.findall(r"uses\.py:(\d+): error", said)} == WRONG, said


@pytest.mark.parametrize("name", kernelzoo.operations.BUILT_IN)
def test_a_signature_is_that_of_the_operation(name: str) -> None:
    op = kernelzoo.operations.OPERATIONS[name]
    kind = getattr(signatures, signatures.__annotations__[name])
    assert signatures._Operations.__annotations__[name] == kind.__name__

    def call() -> None: ...

    call.__module__, call.__qualname__ = kind.__module__, f"{kind.__name__}.__call__"
    told = typing.get_overloads(call) or [kind.__call__]
    for signature in map(inspect.signature, told):
        _, *parameters, how = signature.parameters.values()
        right = [p for p in signature_of(op).parameters.values() if p.name not in signatures._How.__annotations__]
        assert how.annotation == "Unpack[_How]" and len(right) + 2 == len(signature_of(op).parameters)
        assert [(p.name, p.kind) for p in parameters] == [(p.name, p.kind) for p in right]
        for said, due in zip(parameters, right, strict=True):
            assert said.default == (... if due.name == "axis" else due.default)
        if len(op.outputs) > 1:
            assert len(typing.get_args(eval(signature.return_annotation, vars(signatures)))) == len(op.outputs)


def test_all_operations_have_a_signature() -> None:
    assert tuple(signatures._Operations.__annotations__) == kernelzoo.operations.BUILT_IN
