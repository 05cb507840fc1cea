"""The operations of examples/operations, declared for a while, and forgotten again."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from scripts import loaded

from kernelzoo import operations, registry
from kernelzoo.calls import backend
from kernelzoo.check.cases import Case, cases

FOLDER = Path(__file__).parents[2] / "examples" / "operations"
NAMES = ("l2_normalize",)


@contextlib.contextmanager
def declared(*backends: str) -> Iterator[dict[str, ModuleType]]:
    """The modules by operation. In the end, the operations are forgotten, and all of ``mine`` and these backends."""
    modules = {name: loaded(FOLDER / f"{name}.py") for name in NAMES}
    try:
        yield modules
    finally:
        for name, module in modules.items():
            del operations.declared[name], backend.functions[name], sys.modules[module.__name__]
            delattr(backend.Backend, name)
        for table in (registry._registered, registry._choosers):
            for key in [key for key in table if key[0] in ("mine", *backends)]:
                del table[key]
        for name in ("mine", *backends):
            registry._loaded.pop(name, None)
            backend._backends.pop(name, None)
            vars(backend._loaded).pop(name, None)


_TELLING = ("special-values-5", "cancels", "neighbours", "middle", "stepped", "scalar", "=")


def few_cases(op: str) -> list[Case]:
    """Those that an interpreter or an emulator has the time for: of every dtype and layout, and every rule."""

    def tells(case: Case) -> bool:
        if case.core and case.dtype == "float32":
            return case.elements <= 5000  # some that no block of threads takes at once
        return case.elements <= 3000 and any(word in case.name for word in _TELLING)

    return [case for case in cases(op) if tells(case)]
