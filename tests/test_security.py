"""What the package never does, read off its source: nothing that it is given to read is ever run."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelzoo
from kernelzoo.cli import probe
from kernelzoo.measure.guard import Guard

ROOT = Path(kernelzoo.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))

RUNS = {
    "eval", "exec", "compile", "__import__",
    "pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml", "runpy",
    "torch.load", "torch.jit.load", "torch.package", "numpy.load", "pandas.read_pickle",
    "os.system", "os.popen", "os.execv", "os.execve", "os.execvp", "os.spawnv", "os.spawnl", "os.posix_spawn",
    "subprocess.getoutput", "subprocess.getstatusoutput",
    "importlib.import_module", "importlib.util.spec_from_file_location", "importlib.util.module_from_spec",
}  # fmt: skip
"""What makes a program of data, or runs one."""

ALLOWED = {
    # Their own names, imported when they are first used.
    "__init__.py": {"importlib.import_module"},
    "testing.py": {"importlib.import_module"},
    # Numba's machine code for the host is one; it comes from a folder that only this user can write
    # to, and that no other code of this package reads (kernelzoo/kernels/shared/code_cache.py).
    "kernels/cpu/launch.py": {"pickle"},
    # The judge's memory, which it hands to the runners that it started.
    "measure/judge/memory.py": {"pickle"},
    # torch.compile, of this package's own functions.
    "kernels/torch/compiled.py": {"torch.compile"},
    # A user's own --module, and the backends of this package and of entry points.
    "registry.py": {"importlib.import_module"},
    "packages.py": {
        "importlib.import_module",
        "importlib.util.spec_from_file_location",
        "importlib.util.module_from_spec",
    },
    # The form of one of this package's backends that exchanges by symmetric memory.
    "distributed/symmetric.py": {"importlib.import_module"},
    # The module of a user's operation, which a pickle of it names, as any pickle may.
    "calls/methods.py": {"importlib.import_module"},
    # Operations of this package and of entry points.
    "operations/known.py": {"importlib.import_module"},
    # What Helion makes, in this process, of this package's own functions.
    "kernels/helion/compiler.py": {"compile", "exec"},
    # Code that a user's own definition, problem or solution holds, which says so.
    "definitions/reference.py": {"compile", "exec"},
    "definitions/kernelbench.py": {"compile", "exec"},
    "definitions/gpumode.py": {"compile", "exec"},
    # Sizes, and a constraint of them: names, numbers, arithmetic and comparisons, and nothing else.
    "definitions/meant_sizes.py": {"compile", "eval"},
    "operations/derived.py": {"compile", "eval"},
    "definitions/solutions.py": {"importlib.import_module"},
    # Of a backend's package, by the names that the registry knows.
    "inspect.py": {"importlib.import_module"},
    "inspecting.py": {"importlib.import_module"},
    "check/running.py": {"importlib.import_module"},
    "measure/planning.py": {"importlib.import_module"},
}


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an expression of names, or ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def runs(tree: ast.Module) -> Iterator[str]:
    """What of RUNS a module imports or names, whatever it calls it."""
    called = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                called[alias.asname or first] = alias.name if alias.asname else first
                yield from (alias.name, first)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
            for alias in node.names:
                called[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            called[node.name] = f"our own {node.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node)):
            first, dot, rest = name.partition(".")
            yield (called.get(first, first) + dot + rest).removeprefix("builtins.")
        if isinstance(node, ast.Call) and any(
            keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            for keyword in node.keywords
        ):
            yield "shell=True"
        if isinstance(node, ast.Constant) and re.match(r"allow_pickle|weights_only", str(node.value)):
            yield str(node.value)


def found(text: str) -> set[str]:
    return {name for name in runs(ast.parse(text)) if name in RUNS or name == "shell=True"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_makes_a_program_of_data(path: Path) -> None:
    place = str(path.relative_to(ROOT))
    assert found(path.read_text(encoding="utf-8")) <= ALLOWED.get(place, set())


def test_every_exception_is_still_needed() -> None:
    for place, names in ALLOWED.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        assert all(name.rpartition(".")[2] in text for name in names)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import pickle as p\np.loads(b'')",
        "from pickle import loads",
        "from pickle import loads as l",
        "def f():\n    import marshal",
        "eval('1')",
        "run = exec",
        "import torch\ntorch.load('x')",
        "import torch as t\nt.load('x')",
        "from torch import load",
        "import yaml",
        "import subprocess\nsubprocess.run('x', shell=True)",
        "import subprocess as s\ns.Popen('x', shell=yes)",
        "import os\nos.system('x')",
        "from os import system as f",
        "import builtins\nbuiltins.eval('1')",
        "import importlib\nimportlib.import_module('x')",
    ],
)
def test_the_check_above_can_fail(text: str) -> None:
    assert found(text)


def test_paths_in_results_are_never_written_to() -> None:
    """All that is written goes through one function, whose path is the caller's own; the others are named here."""
    writers = re.compile(
        r"write_text|write_bytes|\.savefig\(|open\([^)]*[\"'][wax]|fdopen\([^)]*[\"'][wax]|os\.replace|mkstemp"
    )
    places = {str(path.relative_to(ROOT)) for path in SOURCES if writers.search(path.read_text(encoding="utf-8"))}
    assert places == {
        "files.py",  # that function
        "kernels/shared/code_cache.py",  # machine code, by the digest of what made it
        "report/figure.py",  # into memory
        "cli/__init__.py",  # help, by a formatter's method of that name
        "measure/answering.py",  # what the kernel kills first, and the guard's own pipe
    }


def test_no_process_that_is_started_imports_from_the_working_directory(tmp_path, monkeypatch) -> None:
    """Wherever Python is started; and by trial, for a language that the measuring process and a probe would import."""
    commands = [
        [ast.unparse(word) for word in node.elts[:2]]
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.List) and node.elts and ast.unparse(node.elts[0]) == "sys.executable"
    ]
    assert len(commands) == 3 and all(option == "'-P'" for _, option in commands), commands
    witness = tmp_path / "witness.txt"
    (tmp_path / "numba.py").write_text(f"open({str(witness)!r}, 'w').close()\nraise ImportError('not the one')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f":{ROOT.parent}:")  # an empty entry is the working directory
    with Guard("cpu") as guard:
        assert "not the one" not in guard.find_fuzzing_limits("numba/min/auto")["unavailable"]
    assert "not the one" not in str(probe.run_probes(["backend:numba"]))
    done = subprocess.run([sys.executable, "-m", "kernelzoo", "list", "--backend", "numba"], capture_output=True)
    assert b"not the one" not in done.stdout and done.returncode == 0
    assert not witness.exists()
