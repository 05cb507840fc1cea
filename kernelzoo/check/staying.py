"""What lets no kernel end a process of tests as if all of them had passed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def staying() -> Iterator[None]:
    """Within the context, ``os._exit(0)`` raises RuntimeError in this process, which costs the test that calls it."""
    leave, process = os._exit, os.getpid()

    def left(status: int) -> NoReturn:
        if status == 0 and os.getpid() == process:  # a child that a test forked ends so
            raise RuntimeError("called os._exit(0), which would end pytest with the status of success")
        leave(status)

    os._exit = left
    try:
        yield
    finally:
        os._exit = leave
