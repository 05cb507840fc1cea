"""What checks of any operation share: kernels under throw-away names, and made-up operations."""

from collections.abc import Callable, Iterator

import pytest
from made_up import declare

from kernelzoo.launch import Bind
from kernelzoo.registry import Implementation


@pytest.fixture
def entrant(enter: Callable[[str, Bind], Implementation]) -> Callable[[str, Bind], str]:
    """A bind under a throw-away name, by its id."""
    return lambda op, bind: enter(op, bind).id


@pytest.fixture(scope="module")
def declared() -> Iterator[None]:
    """The made-up operations."""
    with declare():
        yield
