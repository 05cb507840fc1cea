"""Of the contract's cases, those that a usual run takes where kernels are interpreted or emulated."""

from __future__ import annotations

import hashlib
import os

import kernelzoo
from kernelzoo.check.cases import Case
from kernelzoo.operations import MAPPED

_EMULATORS = ("TRITON_INTERPRET", "KERNELZOO_EVALUATE_CUTILE", "KERNELZOO_EMULATE_CUDA", "KERNELZOO_EMULATE_PTX")


def emulated() -> bool:
    """Whether this process runs kernels on the host."""
    return any(os.environ.get(name, "0") != "0" for name in _EMULATORS)


def is_left_out(implementation: kernelzoo.Implementation, case: Case) -> bool:
    """Where kernels are interpreted or emulated: choosers but ``auto`` take the core cases, since the forms that they
    choose take theirs, and the forms take every twelfth one beside them. Of the gradients a sixth of auto's are taken,
    and a quarter of the forms'."""
    if case.core:
        return False
    number, few = number_of(f"{implementation.id}-{case}"), implementation.op not in MAPPED
    if implementation.variant == "auto":
        return few and number % 6 != 0
    return implementation.chooses or number % (12 * (4 if few else 1)) != 0


def number_of(text: str) -> int:
    """Always the same for a text, and spread like drawn ones."""
    return int.from_bytes(hashlib.blake2s(text.encode()).digest()[:8])
