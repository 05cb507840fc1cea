import sys
from pathlib import Path

import pytest

# Test modules are imported by path, each by itself: this is how they find the helpers beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Threads of torch's own would spin against those of the tests."""
