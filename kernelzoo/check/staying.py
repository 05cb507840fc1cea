"""A guard that keeps a kernel from ending the test process with status 0."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def forbid_exit_zero() -> Iterator[None]:
    """Make ``os._exit(0)`` raise RuntimeError within this context and process, so that only the calling test fails."""
    leave, process = os._exit, os.getpid()

    def exit_unless_zero(status: int) -> NoReturn:
        if status == 0 and os.getpid() == process:  # a forked child may exit so
            raise RuntimeError("called os._exit(0), which would end pytest with the status of success")
        leave(status)

    os._exit = exit_unless_zero
    try:
        yield
    finally:
        os._exit = leave
