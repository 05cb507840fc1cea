"""Races of the tests run on one thread each, since tests run beside each other; an implementation to race."""

import os
from collections.abc import Callable
from functools import partial

import pytest

from kernelzoo.registry import Bind, Implementation

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of processes that tests start


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    pass


@pytest.fixture
def entrant(enter: Callable[[str, Bind], Implementation]) -> Callable[[Bind], Implementation]:
    """Registers a softmax under a throw-away name."""
    return partial(enter, "softmax")
