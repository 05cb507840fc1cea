"""Races of the tests run on one thread each, since tests run beside each other."""

import os
import sys
from pathlib import Path

import pytest
import torch

# Test modules are imported by path, each by itself: this is how they find the helpers beside them.
sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of processes that tests start


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
