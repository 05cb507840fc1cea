"""The operations that are known: ours, those of other distributions, and those that a user's module declared."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache

from kernelzoo.errors import RegistrationError
from kernelzoo.operations.declaring import declared
from kernelzoo.operations.operation import Operation

ENTRY_POINTS = "kernelzoo.operations"
"""Entry-point group of operations in other packages: name = the operation, value = the module that declares it."""


BUILT_IN = ("softmax", "min")
"""Ours: a file each in this folder."""


@cache
def homes() -> dict[str, str]:
    """The module of each operation that is announced, by name. Nothing is imported."""
    import importlib.metadata  # slow to import, and only this needs it

    others = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    return others | {name: f"{__package__}.{name}" for name in BUILT_IN}


class Operations(Mapping[str, Operation]):
    """All known operations by name; an announced one is imported when it is asked for."""

    def __getitem__(self, name: str) -> Operation:
        if name not in declared:
            importlib.import_module(homes()[name])
            if name not in declared:
                raise RegistrationError(f"{homes()[name]} is announced as operation {name!r}, and declares none")
        return declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*homes(), *declared)))

    def __len__(self) -> int:
        return len({*homes(), *declared})

    def __contains__(self, name: object) -> bool:
        return name in declared or name in homes()


OPERATIONS = Operations()
