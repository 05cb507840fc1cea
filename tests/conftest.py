import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernelzoo
from kernelzoo.check.cases import Case
from kernelzoo.launch import Bind

# Test modules are imported by path, each by itself: this is how they find what is beside them and what several
# languages share. Not this folder itself: its folders would pass for languages that aren't installed.
HELPERS = "described", "shared", "emulation", "cute", "cutile", "gluon", "helion", "load", "numba", "triton"
sys.path[:0] = [str(Path(__file__).parent / name) for name in HELPERS]

from sampled import needed, number_of  # noqa: E402  (found on that path)
from scripts import loaded  # noqa: E402
from warm import warm_workers  # noqa: E402

INSTALLS = {
    **{name: name for name in ("expecttest", "greenlet", "hatchling", "hypothesis", "jax", "nox", "packaging")},
    **{name: f"'.[{name}]'" for name in ("triton", "helion", "ray")},
    "numba": "'.[cpu]'",
    "numba.cuda": "'.[numba-cuda13]'",
    "cupy": "'.[cupy-cuda13]'",
    "cuda": "'.[cutile]'",
    "cutlass": "'.[cute]'",
    "matplotlib": "'.[report]'",
    "jinja2": "'.[report]'",
    "playwright": "playwright",
    "pytest_benchmark": "pytest-benchmark",
}
"""What pip installs for a module that tests import and the project does not need."""


BUILT_ONCE = {"environments", "installed", "on_h200", "sdist"}
"""Fixtures of what takes long to make, once a module: a wheel, or every kernel compiled."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--core", metavar="BACKEND", help="of the contract, only this backend's, on the core cases")
    parser.addoption("--only", metavar="BACKENDS", help="of the contract, only these backends', comma-separated")
    parser.addoption("--cold", action="store_true", help="start each measuring process as users' start, seconds each")
    parser.addoption("--one-in", type=int, default=1, metavar="K", help="of a form's cases one in K, and special ones")
    parser.addoption("--all", action="store_true", help="run all cases and devices of which a usual run takes a sample")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group what shares compiled kernels in one process, and leave out what a usual run has no time for."""
    for item in items if config.getoption("loadgroup", False) else ():  # as xdist tells its processes
        if BUILT_ONCE & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
        implementation, case = _given(item)
        if implementation is not None and implementation.backend in ("cpu", "helion"):
            dtype = str(case).partition("-")[0] if case is not None else "all"
            item.add_marker(pytest.mark.xdist_group(f"{implementation.op} {dtype}"))
        elif implementation is not None and implementation.variant == "compile":
            item.add_marker(pytest.mark.xdist_group("compile"))  # to import torch's compiler takes ten seconds
    if config.getoption("--all"):
        return
    few = config.getoption("--one-in")
    for item in items if few > 1 else ():
        implementation, case = _given(item)
        if implementation is not None and case is not None and "special" not in case.name:
            item.add_marker(pytest.mark.sampled(few, "implementation"))
    core = config.getoption("--core")
    kept = _sample([item for item in items if not core or _is_core(item, core)])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module of tests that needs a package which isn't installed, and say how to install it."""
    report = yield
    found = report.call.excinfo
    asked = found.traceback[-1].locals.get("modname", "") if found else ""  # of pytest.importorskip
    if needed := _needed(found.value if found else None, asked):
        path, line, why = report.longrepr if report.skipped else (report.nodeid, 0, "Skipped")
        report.outcome, report.longrepr = "skipped", (path, line, why if "pip install" in why else f"{why}: {needed}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The same of one test."""
    report = yield
    if report.failed and call.excinfo and (needed := _needed(call.excinfo.value)):
        report.outcome, report.longrepr = "skipped", (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {needed}")
    return report


def _needed(error: BaseException | None, asked: str = "") -> str:
    """The package whose absence is behind an error, or that a module asked for, and what installs it; or ""."""
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__ or error.__context__
    name = str(error.name) if error is not None else asked
    package = INSTALLS.get(name) or INSTALLS.get(name.partition(".")[0], "")
    return f"needs {name}: python -m pip install {package}" if package else ""


def _given(item: pytest.Item) -> tuple[kernelzoo.Implementation | None, Case | None]:
    params = _params(item)
    implementation = params.get("implementation")  # no such thing where a set of parameters is empty
    return implementation if isinstance(implementation, kernelzoo.Implementation) else None, params.get("case")


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _is_core(item: pytest.Item, backend: str) -> bool:
    """Whether it is no test of an implementation, a core case of this backend's, or a needed one of ``auto``."""
    implementation, case = _given(item)
    if implementation is None:
        return True
    if case is None or implementation.backend != backend:
        return False
    return case.core or (implementation.variant == "auto" and needed(case))


def _sample(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of tests marked ``sampled(k, *names)``, always the same one in k of those alike in them; all others."""
    kept, groups = set(), defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is None:
            kept.add(item)
            continue
        k, *names = marker.args
        groups[k, item.location[:1], item.originalname, *(str(_params(item)[name]) for name in names)].append(item)
    for (k, *_), group in groups.items():
        kept.update(sorted(group, key=lambda item: number_of(item.callspec.id))[: -(-len(group) // k)])
    return kept


def pytest_configure(config: pytest.Config) -> None:
    """Test the shipped launch tables, unless KERNELZOO_TABLES is set, and make ready what runs kernels on the host."""
    for plugin, marker in (("xdist", "xdist_group(name)"), ("timeout", "timeout(seconds)")):
        if not config.pluginmanager.has_plugin(plugin):
            config.addinivalue_line("markers", f"{marker}: for a plugin that is not installed")
    words = "of the cases with these parameters in common, a usual run takes one in k; --all takes all"
    config.addinivalue_line("markers", f"sampled(k, *names): {words}")
    config.addinivalue_line("markers", "slow: starts processes, compiles or draws; nox -s quick leaves it out")
    config.addinivalue_line("markers", "nightly: takes long and guards what seldom changes; nox -s tests leaves it out")
    os.environ.setdefault("KERNELZOO_TABLES", "shipped")
    hands_out = config.getoption("tx", None) and config.getoption("dist") != "no"
    if hasattr(config, "workerinput") or not hands_out:  # where xdist hands tests out, its processes run them
        loaded(Path(__file__).parent / "emulators.py")
        if not config.getoption("--cold"):
            warm_workers()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --benchmark-only, collecting thousands of tests to skip them would only cost time."""
    return True if config.getoption("--benchmark-only", default=False) else None


@pytest.fixture
def enter() -> Iterator[Callable[[str, Bind], kernelzoo.Implementation]]:
    """Registers a bind under a throw-away name, the one before it being forgotten; waits for what it left running."""
    import known_bad
    import torch
    from registered import forget

    def clear() -> None:
        known_bad.go_on.set()
        while known_bad.threads:
            known_bad.threads.pop().join()
        known_bad.go_on.clear()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        forget("entrant")

    def enter(op: str, bind: Bind) -> kernelzoo.Implementation:
        clear()
        kernelzoo.register("entrant", op, "only")(bind)
        return kernelzoo.implementation(f"entrant/{op}/only")

    yield enter
    clear()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 KiB, which root alone can mount, and not in every container."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", tmp_path]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Threads of torch's own would spin against those of other tests."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
