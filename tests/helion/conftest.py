from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One process looks at the kernels of an operation, which takes longer than to compile them."""
    for item in items if config.getoption("loadgroup", False) else ():
        op = item.callspec.params.get("op") if hasattr(item, "callspec") else None
        if op is not None and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(f"helion {getattr(op, 'name', op)}"))
