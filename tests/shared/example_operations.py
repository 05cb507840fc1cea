"""The operation of examples/operations, declared for a while, and forgotten again."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from registered import forget, forget_operation
from scripts import loaded

from kernelzoo.check.cases import Case, cases

OP = "l2_normalize"
FILE = Path(__file__).parents[2] / "examples" / "operations" / f"{OP}.py"


@contextlib.contextmanager
def declared(*backends: str) -> Iterator[ModuleType]:
    """Its module. In the end, the operation is forgotten, and all of ``mine`` and these backends."""
    module = loaded(FILE)
    try:
        yield module
    finally:
        del sys.modules[module.__name__]
        forget_operation(OP)
        forget("mine", *backends)


_TELLING = ("special-values-5", "cancels", "neighbours", "middle", "stepped", "scalar", "=")


def few_cases() -> list[Case]:
    """Those that an interpreter or an emulator has the time for: of every dtype and layout, and every rule."""

    def tells(case: Case) -> bool:
        if case.core and case.dtype == "float32":
            return case.elements <= 5000  # some that no block of threads takes at once
        return case.elements <= 3000 and any(word in case.name for word in _TELLING)

    return [case for case in cases(OP) if tells(case)]
