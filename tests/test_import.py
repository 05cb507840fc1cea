"""Importing the package is free: nothing heavy comes with it."""

import shutil
import subprocess
from pathlib import Path

import commands
import interruptible
import pytest

HEAVY = ("torch", "triton", "cupy", "numba", "numpy", "matplotlib", "pytest", "typer", "rich")


def run(code: str) -> str:
    return subprocess.run(interruptible.python("-c", code), check=True, capture_output=True, text=True).stdout


USES = (
    "",
    "kernelzoo.backends()",
    "kernelzoo.implementations()",
    "kernelzoo.implementations('triton', 'softmax')",
    "kernelzoo.implementation('cpu/min/auto')",
    "import kernelzoo.inspect",
    "import kernelzoo.check.cases; kernelzoo.check.cases.cases('min')",
)


def test_imports_nothing_heavy() -> None:
    """Each of these beside those before it, in one process."""
    uses = [f"{use}\nprint({use!r}, [m for m in {HEAVY} if m in sys.modules])" for use in USES]
    assert run("\n".join(["import sys, kernelzoo", *uses])).splitlines() == [f"{use} []" for use in USES]


def test_the_check_above_can_fail() -> None:
    assert run(f"import sys, numpy; print(*(m for m in {HEAVY} if m in sys.modules))").split()[0] == "numpy"


@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT=1", "NUMBA_THREADING_LAYER=none", "PYTORCH_JIT=0"])
def test_a_compiler_that_is_switched_off_is_named_or_not_needed(variable: str, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    name, _, value = variable.partition("=")
    code = f"""
import os; os.environ[{name!r}] = {value!r}
import torch, kernelzoo
x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
assert kernelzoo.min(x).tolist() == kernelzoo.get("torch").min(x).tolist() == [1.0, 2.0]
try:
    print(kernelzoo.get("cpu").min(x).tolist())
except kernelzoo.BackendUnavailableError as error:
    print(error)
"""
    says = {"1": "NUMBA_DISABLE_JIT is set", "none": "NUMBA_THREADING_LAYER is 'none'; unset it", "0": "[1.0, 2.0]"}
    # Torch reads its variable when it is imported, which a fork has done.
    said = run(code) if name.startswith("PYTORCH") else commands.run(tmp_path, ["-c", code])[1]
    assert says[value] in said


@pytest.mark.parametrize(
    ("package", "within", "id"),
    [
        ("numba", "numba.core.types", "cpu/auto"),
        pytest.param("sympy", "sympy.core", "torch/compile", marks=pytest.mark.nightly),  # ten seconds
    ],
)
def test_an_interrupt_of_a_first_import_comes_when_it_is_over(package: str, within: str, id: str) -> None:
    """Stopped half-way through its import, it could not be imported again."""
    pytest.importorskip(package)
    if id == "torch/compile" and shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a compiler")
    backend, _, variant = id.partition("/")
    code = f"""
import os, signal, sys, torch, kernelzoo

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == {within!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Impatient())
x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
try:
    kernelzoo.get({backend!r}).min(x, variant={variant!r})
except KeyboardInterrupt:
    print("interrupted")
found = kernelzoo.get({backend!r}).min(x, variant={variant!r})
print(found.tolist(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    assert run(code).split("\n")[:2] == ["interrupted", "[1.0, 2.0] True"]


def test_an_interrupt_that_comes_twice_comes_at_once() -> None:
    code = """
import signal
from kernelzoo.interrupts import delay_interrupt

done = []
try:
    with delay_interrupt():
        signal.raise_signal(signal.SIGINT)
        done.append("one")
        signal.raise_signal(signal.SIGINT)
        done.append("two")
except KeyboardInterrupt:
    print(*done)
"""
    assert run(code).strip() == "one"
