import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# Test modules are imported by path, each by itself: this is how they find the helpers beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads of torch's own would spin against those of the tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
