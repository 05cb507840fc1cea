"""Triton keeps machine code by a key that follows every file and constant that a kernel is made of."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernelzoo

CONSTANTS = {
    "triton/softmax/device_functions.py": ('tl.constexpr("evict_last")', 'tl.constexpr("evict_first")'),
    "shared/exchange.py": ("WRITE = tl.constexpr(2)", "WRITE = tl.constexpr(3)"),
}
"""By file, a constant that kernels of other files use, and another value of it."""

SCRIPT = """
import ast, importlib, json, linecache, sys
from pathlib import Path

import torch
from triton.runtime.jit import JITFunction

from kernelzoo import inspect, registry
from kernelzoo.device import ARCHITECTURES
from kernelzoo.kernels.triton import inspection
from kernelzoo.launch import record_binds

HERE = Path(inspection.__file__).parents[1]
SHARED = ("device_functions", "exchange", "halves")
OF_TRITON = ("kernelzoo.kernels.triton.", *(f"kernelzoo.kernels.shared.{name}" for name in SHARED))
CONSTANTS, ONE_IN = json.loads(sys.argv[1]), int(sys.argv[2])


def imported():
    "Every function of Triton's, from files as they are now."
    for name in [name for name in sys.modules if name.startswith(OF_TRITON) and not name.endswith(".inspection")]:
        del sys.modules[name]
    linecache.clearcache()
    importlib.invalidate_caches()
    registry.import_kernels("triton", "kernelzoo.kernels.triton")
    modules = [module for name, module in sys.modules.items() if name.startswith(OF_TRITON)]
    return {
        f"{function.module}.{name}": function
        for module in modules
        for name, function in vars(module).items()
        if isinstance(function, JITFunction) and function.module == module.__name__
    }


def keys():
    return {name: function.cache_key for name, function in imported().items() if name.endswith("_kernel")}


def files(function, seen):
    "The files of a function and of all that it calls, by the names in its source."
    seen.add(str(Path(function.fn.__code__.co_filename).relative_to(HERE)))
    known = function.fn.__globals__
    for node in ast.walk(ast.parse(function.src)):
        called = known.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called = getattr(known.get(node.value.id), node.attr, None)
        if isinstance(called, JITFunction) and called is not function and called.module.startswith("kernelzoo."):
            files(called, seen)
    return seen


def marked(path):
    "Lines stay where they are, which a key says too."
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
            lines[node.end_lineno - 1] += "  # edited"
    return "\\n".join(lines) + "\\n"


def program():
    "What Triton's compiler calls the machine code of one form: the name of its folder in the cache."
    x = torch.empty((64, 1000, 1), device="meta")
    with inspect.simulate_device("triton", ARCHITECTURES["sm_90"]):
        launch = importlib.import_module("kernelzoo.kernels.shared.jit")
        compiled, made = launch.compile_program, []
        launch.compile_program = lambda *args: made.append(compiled(*args)) or made[-1]
        with record_binds(can_compile=True) as steps:
            registry._registered["triton", "softmax", "fused"](x, torch.empty_like(x))()
            steps[0].build()
    launch.compile_program = compiled
    return made[-1].metadata.hash


found = {"made of": {name: sorted(files(f, set())) for name, f in imported().items() if name.endswith("_kernel")}}
found["keys"] = before = keys()
found["again"] = keys() == before
hash = program()
found["changed"], found["constants"] = {}, {}
for number, path in enumerate(sorted((*HERE.glob("triton/**/*.py"), *HERE.glob("shared/*.py")))):
    text, file = path.read_text(), str(path.relative_to(HERE))
    if file not in CONSTANTS and ("@triton.jit" not in text or number % ONE_IN):
        continue
    path.write_text(marked(path))
    found["changed"][file] = sorted(name for name, key in keys().items() if key != before[name])
    if file == "triton/softmax/device_functions.py":
        found["new program"] = program() != hash
    if file in CONSTANTS:
        value, other = CONSTANTS[file]
        assert value in text
        path.write_text(text.replace(value, other))
        found["constants"][file] = sorted(name for name, key in keys().items() if key != before[name])
    path.write_text(text)
found["restored"] = keys() == before and program() == hash
print(json.dumps(found))
"""


def test_a_key_follows_every_file_that_a_kernel_is_made_of(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each file is edited in turn with ``--all``; otherwise one in eight, and those whose constants others use."""
    here = Path(kernelzoo.__file__).parent
    shutil.copytree(here, tmp_path / "kernelzoo", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    one_in = "1" if request.config.getoption("--all") else "8"
    command = [sys.executable, "-P", "-c", SCRIPT, json.dumps(CONSTANTS), one_in]
    done = subprocess.run(command, env=os.environ | environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["again"] and found["restored"] and found["new program"]
    made_of: dict[str, list[str]] = found["made of"]
    assert len(made_of) >= 20 and all(len(files) > 1 for files in made_of.values())
    for file, changed in found["changed"].items():
        assert changed == sorted(name for name, files in made_of.items() if file in files), file
    for file, changed in found["constants"].items():
        assert len(changed) >= 2, file
