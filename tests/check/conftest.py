"""What checks of any operation share: kernels under throw-away names, and made-up operations."""

from collections.abc import Callable, Iterator

import known_bad
import pytest
from made_up import declare
from registered import forget

import kernelzoo
from kernelzoo.launch import Bind
from kernelzoo.registry import Implementation

Enter = Callable[[str, Bind], Implementation]


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Registers a bind under a throw-away name, the one before it being forgotten."""

    def clear() -> None:
        known_bad.go_on.set()
        while known_bad.threads:
            known_bad.threads.pop().join()
        known_bad.go_on.clear()
        forget("entered")

    def enter(op: str, bind: Bind) -> Implementation:
        clear()
        kernelzoo.register("entered", op, "only")(bind)
        return kernelzoo.implementation(f"entered/{op}/only")

    yield enter
    clear()


@pytest.fixture
def entrant(enter: Enter) -> Callable[[str, Bind], str]:
    """The same, by its id."""
    return lambda op, bind: enter(op, bind).id


@pytest.fixture(scope="module")
def declared() -> Iterator[None]:
    """The made-up operations."""
    with declare():
        yield
