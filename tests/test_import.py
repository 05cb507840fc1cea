"""Importing the package is free: nothing heavy comes with it."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "triton", "cupy", "numba", "numpy", "matplotlib", "pytest", "typer", "rich")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "use",
    [
        "",
        "kernelzoo.backends()",
        "kernelzoo.implementations()",
        "kernelzoo.implementations('triton', 'softmax')",
        "kernelzoo.implementation('cpu/min/auto')",
    ],
    ids=["import", "backends", "implementations", "some", "one"],
)
def test_imports_nothing_heavy(use: str) -> None:
    loaded = run(f"import sys, kernelzoo\n{use}\nprint(*(m for m in {HEAVY} if m in sys.modules))")
    assert loaded.strip() == ""


def test_the_check_above_can_fail() -> None:
    assert run(f"import sys, torch; print(*(m for m in {HEAVY} if m in sys.modules))").split()[0] == "torch"


def test_public_names_exist() -> None:
    code = "import kernelzoo; print(all(hasattr(kernelzoo, name) for name in kernelzoo.__all__))"
    assert run(code).strip() == "True"
