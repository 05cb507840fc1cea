import pytest


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Threads of torch's own would spin against those of the tests."""
