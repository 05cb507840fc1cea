from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --benchmark-only, collecting thousands of tests to skip them would only cost time."""
    return True if config.getoption("--benchmark-only", default=False) else None
