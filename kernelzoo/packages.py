"""The packages of backends, and the implementations in their source files. Nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from kernelzoo.errors import BackendUnavailableError, KernelZooError, UnknownNameError
from kernelzoo.operations import OPERATIONS

ENTRY_POINTS = "kernelzoo.backends"
"""Entry-point group of backends in other packages. The name is the backend, the value a package with this layout."""

LANGUAGES = {
    "triton": "Triton",
    "gluon": "Gluon",
    "cutile": "cuTile",
    "cute": "CuTe",
    "helion": "Helion",
    "cupy": "CUDA C",
    "numba": "Numba",
    "cpu": "host",
    "torch": "torch",
}
"""Built-in backends and their names in the documentation, in the order of its pages."""

# A backend is a line above and a folder, whose __init__ has ``probe()``. Each operation has a module there, or a folder
# with a module per variant. Operations with a common chooser have it in a module ``choose``.
BUILT_IN = {name: f"kernelzoo.kernels.{name}" for name in sorted(LANGUAGES)}


class Variant(NamedTuple):
    """An implementation in a source file, or a chooser, which selects one of several implementations."""

    backend: str
    op: str
    variant: str
    summary: str
    """The first paragraph of its docstring."""
    chooses: bool
    """Whether it is a chooser."""
    file: Path
    """Its source file."""
    unreadable: bool = False
    """Whether it stands for code that can't be listed, with the reason in ``summary``. Such a package is never run."""


@cache
def entry_point_backends() -> tuple[tuple[str, str, str], ...]:
    """Return name, package and distribution of every backend of other distributions. Nothing is imported."""
    import importlib.metadata  # slow to import, and only needed here

    return tuple(
        (point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "unknown")
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS)
        if point.name not in BUILT_IN
    )


@cache
def backend_packages() -> dict[str, str]:
    """Return the import path of every backend's package, by name. Built-in ones win over entry points."""
    return {**{name: package for name, package, _ in entry_point_backends()}, **BUILT_IN}


def _metadata_values(field: str) -> list[str]:
    """Return the values of a field in this distribution's metadata; none if it is not installed."""
    import importlib.metadata

    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.metadata("kernelzoo").get_all(field) or []
    return []


def how_to_install(backend: str) -> str:
    """Return the command that installs a backend's language, from the distribution's extras."""
    extras = _metadata_values("Provides-Extra")
    named = [extra for extra in extras if extra == backend or extra.startswith(f"{backend}-")]
    commands = " or ".join(f"pip install 'kernelzoo[{extra}]'" for extra in reversed(named))
    return f"install it with: {commands}" if commands else "see the README for how to install it"


def requirement(package: str, backend: str) -> str:
    """Return the distribution's requirement of a package for a backend, such as ``triton>=3.6``; else only its name."""
    for text in _metadata_values("Requires-Dist"):
        words, _, marker = text.partition(";")
        if re.match(rf"{package}(?![\w.-])", words) and re.search(rf"extra == .{backend}(?![a-z])", marker):
            return words.strip()
    return package


def why_version_unfit(package: str, version: str, backend: str) -> str:
    """Return why a version of a package does not meet the distribution's requirement, or ""."""
    found = tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))
    for sign, bound in re.findall(r"(>=|<)\s*([\d.]+)", requirement(package, backend)):
        limit = tuple(map(int, bound.split(".")))
        if sign == ">=" and found < limit:
            return f"{package} {version} is older than {bound}"
        if sign == "<" and found >= limit:
            return f"{package} {version} is too new, {bound} or later"
    return ""


def load_module(path: str | Path) -> ModuleType:
    """Run a Python file that registers implementations. A second call for the same file only returns the module.

    Raises UnknownNameError if there is no such file, and whatever the file itself raises.
    """
    file = Path(path).resolve()
    name = f"kernelzoo_module_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UnknownNameError("Python file", str(path), sorted(map(str, Path(path).parent.glob("*.py"))))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def summary_of(doc: str | None) -> str:
    """Return the first paragraph of a docstring, as one line."""
    return " ".join((doc or "").strip().partition("\n\n")[0].split())


def list_variants(backend: str) -> tuple[Variant, ...]:
    """Return the implementations that a backend's package registers, read from source without running it.
    A file that can't be read is listed as a variant ``unreadable``. So is a package, for the first of OPERATIONS."""
    package = backend_packages().get(backend)
    return () if package is None else _parse_package(backend, package, tuple(OPERATIONS))


@cache
def _parse_package(backend: str, package: str, operations: tuple[str, ...]) -> tuple[Variant, ...]:
    found = list[Variant]()

    def add_unreadable(error: _UnreadableError, op: str = operations[0], path: Path = Path()) -> None:
        found.append(Variant(backend, op, "unreadable", f"can't be listed: {error}", False, path, unreadable=True))

    try:
        folders = _folders(package)
    except _UnreadableError as error:
        add_unreadable(error)
        return tuple(found)
    places = [(operations[0], folder / "choose.py") for folder in folders]
    for name in operations:
        places += [(name, file) for at in folders for file in (at / f"{name}.py", *sorted((at / name).glob("*.py")))]
    for op, path in places:
        try:
            among = _registered_functions(path, operations, ours=BUILT_IN.get(backend) == package)
            found += (one for one in among if one.backend == backend)
        except _UnreadableError as error:
            add_unreadable(error, op, path)
    return tuple(found)


def why_unreadable(backend: str) -> str:
    """Return why a backend's package can't be listed, or ""."""
    return next((one.summary for one in list_variants(backend) if one.unreadable), "")


def files(id: str) -> tuple[Path, ...]:
    """Return the files of an implementation: its module, and files of the same name with other suffixes (a ``.cu``).

    Nothing is imported. Empty if it is registered outside its backend's package.
    """
    backend, op, variant = id.split("/")
    for found in list_variants(backend):
        if (found.op, found.variant) == (op, variant):
            beside = sorted(path for path in found.file.parent.glob(f"{found.file.stem}.*") if path.suffix != ".py")
            return (found.file, *beside)
    return ()


class _UnreadableError(Exception):
    """A source is missing, is not Python, or registers names that are no literals."""


_LEAVES = re.compile(r"(sys\.|os\._?)?(exit|quit|abort)\(.*|raise .*", re.DOTALL)


def _folders(package: str) -> list[Path]:
    """Return the folders of a package. Unlike importlib's search, this does not run parent packages."""
    name, _, rest = package.partition(".")
    try:
        spec = importlib.util.find_spec(name)
        for part in (*filter(None, rest.split(".")), None):
            if spec is None or spec.submodule_search_locations is None:
                raise _UnreadableError(f"there is no package {package!r}")
            if spec.has_location and spec.origin is not None:
                _parse_module(Path(spec.origin))
            folders = list(spec.submodule_search_locations)
            spec = PathFinder.find_spec(part, folders) if part is not None else None
    except (ImportError, ValueError, AttributeError) as error:  # an odd name, or a broken hook of an installer
        raise _UnreadableError(f"package {package!r}: {error}") from error
    return list(map(Path, folders))


def _parse_module(path: Path) -> ast.Module:
    """Parse a module's source. Raises _UnreadableError if it can't, or if a top-level statement raises or exits."""
    try:
        tree = ast.parse(importlib.util.decode_source(path.read_bytes()))  # in its declared encoding
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
        line, words = getattr(error, "lineno", None), getattr(error, "msg", "") or str(error)
        raise _unreadable(path, line, f"{type(error).__name__}: {words}") from error
    for node in tree.body:
        if isinstance(node, ast.Raise | ast.Expr) and _LEAVES.fullmatch(words := ast.unparse(node)):
            raise _unreadable(path, node.lineno, f"importing it ends with {words:.100}")
    return tree


def _unreadable(path: Path, line: int | None, words: str) -> _UnreadableError:
    return _UnreadableError(f"{path.parent.name}/{path.name}{f', line {line}' if line else ''}: {words}")


_FORM = re.compile(r"^(?:@.*\n)*@(?:\w+\.)*(?:register|chooser)\(", re.MULTILINE)


def _parse_registered_functions(path: Path) -> ast.Module:
    """Parse only the registered functions in a file of this package, up to their docstrings' ends: ten times faster."""
    forms = []
    try:
        source = path.read_text(encoding="utf-8")
        for form in _FORM.finditer(source):
            docstring = source.index('"""', form.end()) + 3
            forms.append(source[form.start() : source.index('"""', docstring) + 3])
        return ast.parse("\n".join(forms))
    except (ValueError, SyntaxError, OSError):  # it is written in another way
        return _parse_module(path)


def _registered_functions(path: Path, operations: Sequence[str], *, ours: bool = False) -> Iterator[Variant]:
    parse = _parse_registered_functions if ours else _parse_module
    for node in parse(path).body if path.is_file() else ():
        if isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if not isinstance(call, ast.Call) or len(call.args) != 3:
                    continue
                name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
                if name in ("register", "chooser"):
                    try:
                        backend, op, variant = (ast.literal_eval(argument) for argument in call.args)
                        known = op in operations and variant.isidentifier()
                    except (ValueError, TypeError, AttributeError):
                        known = False
                    if not known:
                        words = f"{ast.unparse(call):.100} has other names than literals of an operation and a variant"
                        raise _unreadable(path, call.lineno, words)
                    yield Variant(backend, op, variant, summary_of(ast.get_docstring(node)), name == "chooser", path)


MEND = "update or reinstall that package"


@contextmanager
def importing(backend: str) -> Iterator[None]:
    """A context to import a backend's package, in which any error becomes BackendUnavailableError.

    A package that can't be listed is not imported.
    """
    if reason := why_unreadable(backend):
        raise BackendUnavailableError(backend, reason, MEND)
    try:
        yield
    except KernelZooError:
        raise
    except ModuleNotFoundError as error:
        remedy = f"install it with: pip install {error.name}"
        raise BackendUnavailableError(backend, f"the package {error.name} is not installed", remedy) from error
    except (Exception, SystemExit) as error:
        raise BackendUnavailableError(backend, f"importing it raised {type(error).__name__}: {error}", MEND) from error


def require(backend: str, module: str, remedy: str) -> Any:
    """Import a module that a backend's ``probe`` needs. Raises BackendUnavailableError if that fails."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BackendUnavailableError(
            backend, f"the package {error.name or module!r} is not installed", remedy
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendUnavailableError(backend, f"importing {module} failed: {error}", remedy) from error


def import_kernels(name: str, package: str) -> None:
    """Import all modules of a backend's operations, which registers their implementations. Nothing is probed."""
    for op in (*OPERATIONS, "choose"):
        spec = importlib.util.find_spec(f"{package}.{op}")
        if spec is None:
            continue
        require(name, f"{package}.{op}", "reinstall the backend's package")
        for module in pkgutil.iter_modules(spec.submodule_search_locations or ()):
            require(name, f"{package}.{op}.{module.name}", "reinstall the backend's package")
