"""Delays Ctrl-C until work that must not stop half-way is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def delay_interrupt() -> Iterator[None]:
    """A context that delays the first Ctrl-C to its end. A second one interrupts at once.

    In a thread other than the main one, or with another handler of SIGINT, nothing changes.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is not signal.default_int_handler:
        yield
        return
    came: list[FrameType | None] = []

    def record_interrupt(number: int, frame: FrameType | None) -> None:
        came.append(frame)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, record_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            raise KeyboardInterrupt
