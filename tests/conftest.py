import importlib.util
import os
import sys
from pathlib import Path

import pytest

# Test modules are imported by path, each by itself: this is how they find what several languages share.
sys.path.insert(0, str(Path(__file__).parent / "described"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--load", action="store_true", help="run the heavy tests of tests/load too, some minutes")


def pytest_configure() -> None:
    """Test the shipped launch tables, unless KERNELZOO_TABLES is set. Under Triton's interpreter, mend its bfloat16
    first: see tests/triton/interpreter.py."""
    os.environ.setdefault("KERNELZOO_TABLES", "shipped")
    if os.environ.get("TRITON_INTERPRET") == "1":
        spec = importlib.util.spec_from_file_location(
            "interpreter", Path(__file__).parent / "triton" / "interpreter.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.install()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --benchmark-only, collecting thousands of tests to skip them would only cost time."""
    return True if config.getoption("--benchmark-only", default=False) else None
