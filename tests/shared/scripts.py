"""Programs and tables that lie beside the tests and the benches, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def loaded(path: Path) -> ModuleType:
    """The file as a module, made anew at each call, under a name that no other module has."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_kernelzoo", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


__all__ = ["loaded"]
