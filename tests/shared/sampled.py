"""Of the contract's cases, those that a usual run takes on a machine without a GPU. ``--all`` takes all."""

import hashlib
import os
import re
from functools import cache

import kernelzoo
from kernelzoo.check.case import Case
from kernelzoo.check.cases import cases
from kernelzoo.operations import MAPPED

_EMULATORS = ("TRITON_INTERPRET", "KERNELZOO_EVALUATE_CUTILE", "KERNELZOO_EMULATE_PTX")

_SPECIAL = ("special-values", "mostly-minus-inf", "extremes")
_SHAPE = re.compile(r"\d+(x\d+)*")

AUTO, FORMS = {True: 1, False: 3}, {True: 24, False: 48}
"""Of the kinds of case that are not core, one in so many is for ``auto``, and for another form."""


def on_host() -> bool:
    """Whether this process runs kernels on the host."""
    import torch

    return any(os.environ.get(name, "0") != "0" for name in _EMULATORS) or not torch.cuda.is_available()


def is_left_out(implementation: kernelzoo.Implementation, case: Case) -> bool:
    """Whether a usual run leaves this case to ``--all``.

    A kind of case is its name without the dtype. ``auto`` takes the core's special values in every dtype, all other
    needed kinds and layouts in one; every other form, as all of torch's, a share; a sharded step, the core in two.
    """
    auto, kind = implementation.variant == "auto", _kind(case)
    special = kind.startswith(_SPECIAL)
    if auto and case.core and special:
        return False
    number = number_of(f"{implementation.id}-{kind}")
    step = not has_auto(implementation.backend, implementation.op)
    if case.core:
        few = 1 if auto or step or special or kind == "dim0" or kind == _least(implementation.id, case) else 2
    elif kind == "special-values-dim0" or ((auto or step) and needed(case)):
        few = 1
    else:
        few = (AUTO if auto and implementation.backend != "torch" else FORMS)[implementation.op in MAPPED] * (
            3 if _SHAPE.fullmatch(kind) else 1
        )
    if number % few != 0:
        return True
    dtypes = _kinds(implementation.op)[kind, case.core]
    if step:
        main, *others = sorted(implementation.operation.dtypes, key=lambda dtype: dtype != "float32")
        two = main, others[number_of(implementation.id) % len(others)]
        dtypes = [dtype for dtype in dtypes if dtype in two] or (dtypes if needed(case) else [])
    return not dtypes or case.dtype != dtypes[number // 1024 % len(dtypes)]


def is_drawn_for(implementation: kernelzoo.Implementation) -> bool:
    """Whether a usual run draws tensors and fuzzes for it."""
    beside = has_auto(implementation.backend, implementation.op)
    return implementation.variant == "auto" or not beside or number_of(implementation.id) % 3 == 0


def needed(case: Case) -> bool:
    """Whether it is of a class that every language has to meet: offsets beyond 32 bits, empty inputs."""
    return case.name.endswith("-apart") or "-empty-" in case.name


def _kind(case: Case) -> str:
    return case.name.partition("-")[2]


def _least(id: str, case: Case) -> str:
    """The first of the core's other kinds, for a form for which none of them is drawn."""
    others = [kind for kind, core in _kinds(case.op) if core and not kind.startswith(_SPECIAL) and kind != "dim0"]
    return "" if any(number_of(f"{id}-{kind}") % 2 == 0 for kind in others) else others[0]


@cache
def has_auto(backend: str, op: str) -> bool:
    return any(i.variant == "auto" for i in kernelzoo.implementations(backend) if i.op == op)


@cache
def _kinds(op: str) -> dict[tuple[str, bool], list[str]]:
    """The dtypes of each kind of case, core or not."""
    found: dict[tuple[str, bool], list[str]] = {}
    for case in cases(op):
        found.setdefault((_kind(case), case.core), []).append(case.dtype)
    return found


def number_of(text: str) -> int:
    """Always the same for a text, and spread like drawn ones."""
    return int.from_bytes(hashlib.blake2s(text.encode()).digest()[:8])
