"""What checks of any operation share: kernels under throw-away names, and made-up operations."""

from collections.abc import Callable, Iterator
from typing import Any

import made_up
import pytest
from registered import forget, forget_operation

import kernelzoo
from kernelzoo import operations
from kernelzoo.launch import Bind
from kernelzoo.registry import Implementation


@pytest.fixture
def entrant(enter: Callable[[str, Bind], Implementation]) -> Callable[[str, Bind], str]:
    """A bind under a throw-away name, by its id."""
    return lambda op, bind: enter(op, bind).id


@pytest.fixture(scope="module")
def declared() -> Iterator[None]:
    """The made-up operations."""
    with made_up.declare():
        yield


@pytest.fixture
def declare() -> Iterator[Callable[..., operations.Operation]]:
    """Declares the operation ``own`` by what its class has; it and its kernels are forgotten in the end."""

    def declare(dtypes: tuple[str, ...] = ("float32",), **body: Any) -> operations.Operation:
        kernelzoo.operation(name="own", dtypes=dtypes)(type("own", (), body))
        return operations.OPERATIONS["own"]

    yield declare
    forget_operation("own")
    forget("own")
