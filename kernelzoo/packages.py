"""Which packages hold backends, ours and others', and what their source files register. Nothing of them is imported."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kernelzoo.errors import BackendUnavailableError, UnknownNameError

ENTRY_POINTS = "kernelzoo.backends"
"""Entry-point group of backends in other packages: name = the backend, value = a package laid out like ours."""

# A backend is one line here and one folder: ``probe()`` in its __init__, and for each operation a module, or a folder
# with a module to each form.
BUILT_IN = {
    "cpu": "kernelzoo.kernels.cpu",
    "cupy": "kernelzoo.kernels.cupy",
    "numba": "kernelzoo.kernels.numba",
    "torch": "kernelzoo.kernels.torch",
    "triton": "kernelzoo.kernels.triton",
}


class Found(NamedTuple):
    """What a decorator in a source file registers."""

    backend: str
    op: str
    variant: str
    summary: str
    """The first line of its docstring."""
    chooses: bool
    """Whether it is a chooser."""
    file: Path
    """Where it stands."""


@cache
def announced() -> tuple[tuple[str, str, str], ...]:
    """Name, package and distribution of every backend that other distributions announce. Nothing is imported."""
    import importlib.metadata  # slow to import, and only this needs it

    return tuple(
        (point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "unknown")
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS)
        if point.name not in BUILT_IN
    )


@cache
def packages() -> dict[str, str]:
    """Import path of every backend's package, by name; ours win over an entry point of the same name."""
    return {**{name: package for name, package, _ in announced()}, **BUILT_IN}


def how_to_install(backend: str) -> str:
    """The command that installs a backend's language, by the extras of the distribution."""
    import importlib.metadata

    try:
        extras = importlib.metadata.metadata("kernelzoo").get_all("Provides-Extra") or []
    except importlib.metadata.PackageNotFoundError:
        extras = []
    named = [extra for extra in extras if extra == backend or extra.startswith(f"{backend}-")]
    commands = " or ".join(f"pip install 'kernelzoo[{extra}]'" for extra in reversed(named))
    return f"install it with: {commands}" if commands else "see the README for how to install it"


def load_module(path: str | Path) -> None:
    """Run a Python file that registers implementations; a second call for the same file does nothing.

    Raises UnknownNameError if there is no such file, and whatever the file itself raises.
    """
    file = Path(path).resolve()
    name = f"kernelzoo_module_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UnknownNameError("Python file", str(path), sorted(map(str, Path(path).parent.glob("*.py"))))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


@cache
def scan(backend: str, package: str, operations: tuple[str, ...]) -> tuple[Found, ...]:
    """The implementations that a package's modules register, read off their source."""
    spec = importlib.util.find_spec(package)
    folders: Sequence[str] = spec.submodule_search_locations or () if spec is not None else ()
    return tuple(
        found
        for folder in folders
        for op in operations
        for path in (Path(folder, f"{op}.py"), *sorted(Path(folder, op).glob("*.py")))
        if path.is_file()
        for found in _decorated(path)
        if found.backend == backend
    )


def files(id: str, operations: tuple[str, ...]) -> tuple[Path, ...]:
    """The files of an implementation: its module, and files of the same name with another suffix (a ``.cu``).

    Nothing is imported. Empty if it is registered outside its backend's package.
    """
    backend, op, variant = id.split("/")
    package = packages().get(backend)
    for found in scan(backend, package, operations) if package is not None else ():
        if (found.op, found.variant) == (op, variant):
            beside = sorted(path for path in found.file.parent.glob(f"{found.file.stem}.*") if path.suffix != ".py")
            return (found.file, *beside)
    return ()


def _decorated(path: Path) -> Iterator[Found]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if not isinstance(call, ast.Call) or len(call.args) != 3:
                    continue
                name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
                if name in ("register", "chooser"):
                    backend, op, variant = (ast.literal_eval(argument) for argument in call.args)
                    yield Found(backend, op, variant, first_line(ast.get_docstring(node)), name == "chooser", path)


def require(backend: str, module: str, remedy: str) -> Any:
    """Import a module that a backend needs, for its ``probe``; BackendUnavailableError if that fails."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BackendUnavailableError(
            backend, f"the package {error.name or module!r} is not installed", remedy
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendUnavailableError(backend, f"importing {module} failed: {error}", remedy) from error
