"""What stands above the kernels: imports go one way, files stay short, and no operation or backend is named."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelzoo import operations, packages

ROOT = Path(__file__).parents[1]
LAYERS = ("measure", "report", "cli")
FILES = [path for layer in LAYERS for path in sorted((ROOT / "kernelzoo" / layer).rglob("*.py"))]
PACKAGES = {
    "kernelzoo/measure/environment.py": "the versions of these packages are part of a result",
    "kernelzoo/cli/doctor.py": "which packages are installed",
    "kernelzoo/cli/suspicions.py": "which packages don't go together",
}
"""Files in which such a name is that of a Python package."""


def imported(path: Path) -> Iterator[str]:
    """Modules that a file imports, wherever it does, type checking included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_go_one_way(path: Path) -> None:
    above = LAYERS[LAYERS.index(path.relative_to(ROOT).parts[1]) + 1 :]
    upward = [module for module in imported(path) for layer in above if f"{module}.".startswith(f"kernelzoo.{layer}.")]
    assert not upward


def test_no_imports_run_in_a_circle() -> None:
    modules = {name(path): path for path in FILES}
    left = {
        module: {
            found
            for one in imported(path)
            for found in (one, one.rpartition(".")[0])
            if found in modules and found not in (module, module.rpartition(".")[0])
        }
        for module, path in modules.items()
    }
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert not left


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "bench").rglob("*.py"))], ids=name)
def test_files_are_short(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= 400


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_operation_and_no_backend_is_named(path: Path) -> None:
    """But for "min" and "cpu", the smallest of some numbers and a device, and for "torch", the package."""
    names = {*operations.OPERATIONS, *packages.BUILT_IN} - {"min", "cpu", "torch"}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in names}
    assert not named or path.relative_to(ROOT).as_posix() in PACKAGES
