import os
import sys
import zlib
from pathlib import Path

import pytest

import kernelzoo
from kernelzoo.check.cases import Case

# Test modules are imported by path, each by itself: this is how they find what several languages share. Not this folder
# itself: its folders would pass for languages that aren't installed.
sys.path[:0] = [str(Path(__file__).parent / name) for name in ("described", "shared")]

from scripts import loaded  # noqa: E402  (found on that path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--load", action="store_true", help="run the heavy tests of tests/load too, some minutes")
    parser.addoption("--all", action="store_true", help="run all cases and devices of which a usual run takes a sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where kernels are interpreted or emulated, all cases would take too many minutes: choosers but ``auto`` take the
    core ones, since the forms that they choose take theirs, and in Triton's interpreter the forms take every third one.
    With ``--all``, and on a device, nothing is left out.

    The host's kernels are compiled for each dtype, which takes longer than all their cases: with ``--dist loadgroup``
    one process does that for a dtype, where two that met the same kernels at once would each compile them."""

    def given(item: pytest.Item) -> tuple[kernelzoo.Implementation | None, Case | None]:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        return params.get("implementation"), params.get("case")

    for item in items if config.getoption("dist", "no") == "loadgroup" else ():
        implementation, case = given(item)
        if implementation is not None and implementation.backend == "cpu":
            dtype = str(case).partition("-")[0] if case is not None else "all"
            item.add_marker(pytest.mark.xdist_group(f"{implementation.op} {dtype}"))
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if config.getoption("--all") or not (interpreted or os.environ.get("KERNELZOO_EMULATE_CUDA") == "1"):
        return

    def left_out(item: pytest.Item) -> bool:
        implementation, case = given(item)
        if implementation is None or case is None or implementation.variant == "auto" or case.core:
            return False
        if implementation.chooses or not interpreted:
            return implementation.chooses
        return zlib.crc32(f"{implementation.id}-{case}".encode()) % 3 != 0

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]


def pytest_configure() -> None:
    """Test the shipped launch tables, unless KERNELZOO_TABLES is set. Where TRITON_INTERPRET, NUMBA_ENABLE_CUDASIM or
    KERNELZOO_EMULATE_CUDA has kernels run on the host, make ready what they run in."""
    os.environ.setdefault("KERNELZOO_TABLES", "shipped")
    loaded(Path(__file__).parent / "emulators.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --benchmark-only, collecting thousands of tests to skip them would only cost time."""
    return True if config.getoption("--benchmark-only", default=False) else None
