"""Races of the tests run on one thread each, since tests run beside each other; an implementation to race."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from registered import forget

import kernelzoo
from kernelzoo.registry import Bind, Implementation

# Test modules are imported by path, each by itself: this is how they find the helpers beside them.
sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of processes that tests start


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def entrant() -> Iterator[Callable[[Bind], Implementation]]:
    """Registers a bind under a throw-away name."""

    def enter(bind: Bind) -> Implementation:
        kernelzoo.register("entrant", "softmax", "only")(bind)
        return kernelzoo.implementation("entrant/softmax/only")

    yield enter
    forget("entrant")
