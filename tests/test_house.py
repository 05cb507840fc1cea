"""The house keeps its rules: small files, imports one way, no name outside its place, one name for one form."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import kernelzoo

PACKAGE = Path(kernelzoo.__file__).parent
ROOT = PACKAGE.parent
LONGEST = 400
"""Lines of a file."""
MOST_WORDS = 20
"""In the first sentence of a docstring."""

# From the ground up: a module imports from its own floor and from those below it.
FLOORS = (
    ("errors", "lazy", "signatures", "torch_private"),
    ("children", "files", "interrupts", "terminal", "user_cache"),
    ("launch", "device", "layout"),
    ("tables",),
    ("operations",),
    ("packages", "registry"),
    ("calls", "definitions"),
    ("kernels",),
    ("distributed",),
    ("inspect", "side_by_side"),
    ("inspecting",),
    ("check",),
    ("measure",),
    ("report",),
    ("results",),
    ("cli",),
    ("__init__", "__main__", "nn", "testing"),
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}

GPU_LANGUAGES = ("cupy", "numba", "triton")
SELECTIONS = ("cute", "cutile", "gluon", "helion")
"""GPU languages that show some of the forms."""
NAMED = {
    "softmax": ("fused", "multi_row", "persistent", "online", "split"),
    "min": ("rows", "rows_deferred", "atomic_eager", "atomic_batched", "split"),
    "softmax_backward": ("fused",),
    "min_backward": ("fused",),
}
"""What every other GPU language has."""

OPERATIONS = tuple(
    sorted(path.stem for path in (PACKAGE / "kernels" / "triton").iterdir() if (path / "split.py").exists())
)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, less the package's own."""
    found = {}
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts if parts[-1] != "__init__" or len(parts) == 1 else parts[:-1])
        found[name] = path
    return found


def imports(name: str) -> Iterator[str]:
    """The package's modules that a module imports: wherever in the file, and for type checking alone too."""
    for node in ast.walk(ast.parse(modules()[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            wanted = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, attribute in wanted:
            if module != "kernelzoo" and not module.startswith("kernelzoo."):
                continue
            within = module.partition(".")[2]
            whole = f"{within}.{attribute}".strip(".")
            if whole in modules():
                yield whole
            elif within:
                yield within
            elif attribute not in (None, "__version__"):  # the package alone is imported for its version
                yield "__init__"


def test_files_are_short() -> None:
    files = [*PACKAGE.rglob("*"), *(ROOT / "bench").glob("*.py")]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
        if path.suffix in (".py", ".cu", ".cuh")
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_first_sentences_are_short() -> None:
    """Of docstrings outside kernels/."""
    long = []
    for name, path in modules().items():
        if name == "kernels" or name.startswith("kernels."):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
                first = re.split(r"(?<=[.!?])\s", paragraph)[0]
                if len(first.split()) > MOST_WORDS:
                    long.append(f"{name}.{getattr(node, 'name', '')}: {first}")
    assert long == []


def test_imports_go_down() -> None:
    upward = [
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)
        if FLOOR[other.partition(".")[0]] > FLOOR[name.partition(".")[0]]
    ]
    assert upward == []


def test_a_language_imports_no_other() -> None:
    for name in modules():
        kernels, _, rest = name.partition(".")
        language = rest.partition(".")[0]
        if kernels == "kernels" and language:
            for other in imports(name):
                if other.startswith("kernels."):
                    assert other.split(".")[1] in (language, "shared"), f"{name} imports {other}"


def test_no_import_circle() -> None:
    graph = {name: sorted({other for other in imports(name) if other != name}) for name in modules()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"a circle: {' -> '.join((*path[path.index(name) :], name))}"
        if name not in done:
            for other in graph[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_package_mocks_nothing() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) unittest", path.read_text(encoding="utf-8"), re.MULTILINE), path


def _docstrings(tree: ast.AST) -> set[int]:
    """The constants that stand alone as a statement."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


# Where a name that is an operation's or a backend's means something else, and what.
NAMES_ELSEWHERE: dict[str, str] = {
    "packages": "BUILT_IN and LANGUAGES",
    "nn": "modules, each of an operation",
    "calls.arrays": "names of packages, whose arrays are taken",
    "registry": "the order in which backends are preferred",
    "__init__": "the public names",
    "measure.environment": "names of packages, whose versions are recorded",
    "measure.record": "the least sample of a bench, as pytest-benchmark calls it",
    "cli.doctor": "names of packages",
    "report.former_ids": "names that forms had",
    "cli.diagnostics": "names of packages",
}


def test_names_stand_in_their_place() -> None:
    names = {*GPU_LANGUAGES, *SELECTIONS, *OPERATIONS}
    pattern = re.compile(rf"^({'|'.join(('cpu', 'torch', *GPU_LANGUAGES, *SELECTIONS))})/({'|'.join(OPERATIONS)})\b")
    wrong = []
    for name, path in modules().items():
        if name.startswith(("kernels.", "operations.", "distributed")) or name in NAMES_ELSEWHERE:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        stand_alone = _docstrings(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in stand_alone:
                continue
            if node.value in names or pattern.match(node.value):
                wrong.append(f"{name}, line {node.lineno}: {node.value!r}")
    assert wrong == []


@cache
def registered(language: str) -> dict[tuple[str, str], tuple[str, Path]]:
    """By operation and name, what a language registers: ``register`` or ``chooser``, and the file it stands in."""
    found = {}
    home = PACKAGE / "kernels" / language
    for path in (home / "choose.py", *(path for op in OPERATIONS for path in sorted((home / op).glob("*.py")))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8") if path.exists() else "")):
            if not isinstance(node, ast.FunctionDef):
                continue
            for call in node.decorator_list:
                kind = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
                if kind in ("register", "chooser"):
                    of, op, name = (ast.literal_eval(argument) for argument in call.args)
                    assert of == language and path.parent in (home / op, home), f"{path}: {of}/{op}/{name}"
                    found[op, name] = kind, path
    return found


@pytest.mark.parametrize("language", ["cpu", *GPU_LANGUAGES, *SELECTIONS, "torch"])
def test_a_form_has_a_file_of_its_name(language: str) -> None:
    for (op, name), (kind, path) in registered(language).items():
        assert path.stem == (name if kind == "register" else "choose"), f"{language}/{op}/{name} stands in {path.name}"


def test_named_forms_are_in_every_language() -> None:
    """As a form, or as a chooser that stands for several."""
    for language in GPU_LANGUAGES:
        lacking = [
            f"{op}/{name}" for op, names in NAMED.items() for name in names if (op, name) not in registered(language)
        ]
        assert lacking == [], language


def test_no_program_hides_a_module_of_python() -> None:
    """A program's own folder comes first on its path: beside bench/aa.py, a ``profile.py`` was what Numba imported."""
    programs = [path for folder in ("bench", "tests", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in programs if path.stem in sys.stdlib_module_names] == []


BUDGET = {"kernelzoo": 65_214, "kernelzoo/kernels": 32_990, "kernelzoo/measure": 6_713, "tests": 38_882}
"""Most lines of source in each folder, docstrings included. What comes beyond is taken away elsewhere first."""


@pytest.mark.parametrize("folder", BUDGET)
def test_the_house_does_not_grow(folder: str) -> None:
    place = Path(__file__).parents[1] / folder
    files = [path for path in place.rglob("*") if path.suffix in (".py", ".cu", ".cuh")]
    files = [path for path in files if not {"vendor", "__pycache__"} & set(path.parts)]
    assert files and sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= BUDGET[folder]
