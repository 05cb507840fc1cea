"""Shell completion of ids, operations, backends, variants and dtypes, without heavy imports."""

from collections.abc import Callable, Iterable

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


def _last_word(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completes a name, or the last of several with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known() if name.startswith(word)]

    return complete


some_ops = _last_word(lambda: OPERATIONS)
some_backends = _last_word(registry.backends)
some_variants = _last_word(lambda: sorted({id.split("/")[2] for id in ids()}))
some_dtypes = _last_word(dtypes)
