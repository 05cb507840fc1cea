"""Shell completion of ids, operations, backends, variants and dtypes, without heavy imports."""

from __future__ import annotations

from collections.abc import Iterable

from kernelzoo import registry
from kernelzoo.operations import FLOATS, INTEGERS, OPERATIONS


def ids() -> list[str]:
    """Every id, whether or not it can run here."""
    return [implementation.id for implementation in registry.implementations()]


def dtypes() -> list[str]:
    """Names of the dtypes that an operation may take."""
    return [*FLOATS, *INTEGERS]


def some_ids(incomplete: str) -> list[str]:
    """Ids with that beginning."""
    return [id for id in ids() if id.startswith(incomplete)]


def some_ops(incomplete: str) -> list[str]:
    """Operations; completes the last of several with commas."""
    return _last_word(incomplete, OPERATIONS)


def some_backends(incomplete: str) -> list[str]:
    """Backends, completed as operations."""
    return _last_word(incomplete, registry.backends())


def some_variants(incomplete: str) -> list[str]:
    """Variants, completed as operations."""
    return _last_word(incomplete, sorted({id.split("/")[2] for id in ids()}))


def some_dtypes(incomplete: str) -> list[str]:
    """Dtypes, completed as operations."""
    return _last_word(incomplete, dtypes())


def _last_word(incomplete: str, known: Iterable[str]) -> list[str]:
    before, comma, word = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in known if name.startswith(word)]
