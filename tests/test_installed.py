"""Merely installed, kernelzoo changes nothing: not a foreign project's tests, nor the process that imports it."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

CONFTEST = """
import json, os, signal, sys, threading, warnings
import pytest

def pytest_addoption(parser):
    parser.addoption("--require")
    parser.addoption("--ends", type=int)

def kind(value):  # without its address
    return f"{type(value)} {getattr(value, '__module__', '')} {getattr(value, '__qualname__', '')}"

def named(plugin):
    return "nameless" if plugin.isdigit() else plugin

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    config = session.config
    plugins = config.pluginmanager
    hooks = {hook.name: [named(impl.plugin_name) for impl in hook.get_hookimpls()]
             for hook in vars(plugins.hook).values()}
    found = {
        "modules": sorted(sys.modules),
        "os._exit": os._exit.__module__,
        "plugins": sorted(named(name) for name, _ in plugins.list_name_plugin()),
        "hooks": {name: impls for name, impls in hooks.items() if impls},
        "options": sorted(option for group in [config._parser._anonymous, *config._parser._groups]
                          for one in group.options for option in one.names()),
        "ini": sorted(config._parser._inidict),
        "warnings": list(map(repr, warnings.filters)),
        "environment": sorted(os.environ),
        "signals": {str(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "sys hooks": [kind(hook) for hook in (sys.excepthook, sys.displayhook, sys.unraisablehook)],
        "path hooks": list(map(kind, sys.path_hooks)),
        "finders": [type(finder).__name__ for finder in sys.meta_path],
        "patched": sorted(
            f"{name}.{key}" for name, module in list(sys.modules.items()) if not name.startswith("kernelzoo")
            for key, value in list(getattr(module, "__dict__", {}).items())
            if str(getattr(value, "__module__", "")).startswith("kernelzoo")
        ),
    }
    with open("found.json", "w") as file:
        json.dump(found, file)
    if (status := config.getoption("--ends")) is not None:
        sys.stdout.flush()
        os._exit(status)
"""


def linked(folder: Path) -> Path:
    """All that is installed here but kernelzoo and what brings other plug-ins, as links."""
    folder.mkdir()
    places = [Path(place) for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
    for path in (path for place in places for path in place.iterdir()):
        points = path / "entry_points.txt"
        plugin = points.exists() and "[pytest11]" in points.read_text(encoding="utf-8")
        link = folder / path.name
        if not ("kernelzoo" in path.name or path.suffix == ".pth" or plugin or link.exists()):
            link.symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Paths of one environment without kernelzoo and of one with its wheel."""
    for needed in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(needed, reason=f"{needed}, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("installed")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel"))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    without = linked(folder / "others")
    return str(without), os.pathsep.join([str(folder / "site"), str(without)])


def python(path: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with these packages and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KERNELZOO"))}
    command = (sys.executable, "-S", *arguments)
    return subprocess.run(command, cwd=cwd, env={**kept, "PYTHONPATH": path}, capture_output=True, text=True)


@pytest.mark.parametrize("ends", [None, 0, 3])
def test_a_foreign_project_sees_nothing_of_it(environments: tuple[str, str], tmp_path: Path, ends: int | None) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # else one of a folder above counts
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    ending = [] if ends is None else [f"--ends={ends}"]
    runs: list[dict[str, Any]] = []
    for path in environments:
        options = ("-q", "-p", "no:cacheprovider", "--require=a service", *ending)
        done = python(path, "-m", "pytest", *options, cwd=tmp_path)
        assert done.returncode == (ends or 0), done
        if ends is None:
            assert "1 passed" in done.stdout, done
        runs.append(json.loads((tmp_path / "found.json").read_text()))
    without, there = runs
    plugin = "kernelzoo.testing"
    new = {*there.pop("modules")} - {*without.pop("modules")}
    assert new - {"csv", "_csv"} == {"kernelzoo", plugin}  # no torch, nor NumPy; Python 3.14 reads plug-ins with csv
    assert {*there.pop("plugins")} - {*without.pop("plugins")} == {plugin}
    assert {*there.pop("options")} - {*without.pop("options")} == {"--kernelzoo-require"}
    hooks = {name for name, impls in there["hooks"].items() if plugin in impls}
    assert hooks == {"pytest_addoption"}
    there["hooks"]["pytest_addoption"].remove(plugin)
    assert there == without


CALLS = """
import atexit, gc, locale, logging, os, random, signal, sys, threading, types, warnings
import numpy, torch
import numpy.ma, torch.utils.dlpack

x = torch.ones(8, 64)

def state():
    return {
        "environment": dict(os.environ),
        "path": list(sys.path), "finders": list(sys.meta_path), "path hooks": list(sys.path_hooks),
        "warnings": list(warnings.filters),
        "signals": {s: signal.getsignal(s) for s in signal.valid_signals()},
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, sys.gettrace()),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold()),
        "files": (os.getcwd(), sys.stdout, sys.stderr, locale.setlocale(locale.LC_ALL)),
        "logging": (logging.root.level, list(logging.root.handlers), logging.raiseExceptions),
        "torch": (torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads(),
                  torch.get_num_interop_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
                  torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
                  torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark,
                  torch.is_warn_always_enabled(), torch.get_flush_denormal() if hasattr(torch, "get_flush_denormal")
                  else None, repr(torch._tensor_str.PRINT_OPTS)),
        "random": (torch.get_rng_state().tolist(), random.getstate(), repr(numpy.random.get_state())),
        "numpy": (numpy.geterr(), numpy.get_printoptions()),
    }

def ours(value):
    return str(vars(value).get("__module__", "") if isinstance(value, type) else getattr(value, "__module__", ""))

def patched():
    found = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("kernelzoo", "__main__", "__mp_main__") or type(module) is not types.ModuleType:
            continue
        for key, value in list(vars(module).items()):
            inside = list(vars(value).items()) if isinstance(value, type) else []
            for one, what in [(key, value), *((f"{key}.{k}", v) for k, v in inside)]:
                if isinstance(what, (types.FunctionType, type)) and ours(what).startswith("kernelzoo"):
                    found.add(f"{name}.{one}")
    return found

before = state()
import kernelzoo
BACKEND = kernelzoo.get(NAME)
for _ in range(2):
    BACKEND.softmax(x), BACKEND.softmax(x, 0), BACKEND.min(x, (0, 1)), BACKEND.softmax_backward(x, x)
    BACKEND.softmax(x, out=torch.empty(8, 64)), BACKEND.softmax(x.numpy())
    BACKEND.softmax(x.clone().requires_grad_()).sum().backward()
after = state()
changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
print(changed or "", *sorted(patched()))
"""


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("name", ["torch", "cpu"])
def test_first_calls_leave_the_process_as_it_was(name: str, threads: str, tmp_path: Path) -> None:
    """Settings of the interpreter, of torch and of NumPy, and the names of others' modules."""
    if name == "cpu":
        pytest.importorskip("numba", reason="the cpu backend needs Numba")
    program = tmp_path / "calls.py"
    program.write_text(CALLS.replace("NAME", repr(name)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    environment["OMP_NUM_THREADS"] = threads
    command = (sys.executable, "-W", "ignore", str(program))
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout[-3000:] + done.stderr[-3000:]
