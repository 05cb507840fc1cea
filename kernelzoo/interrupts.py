"""Puts an interrupt off until what must not stop half-way is over."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Within the context, the first Ctrl-C waits for its end; the second one comes at once.

    In a thread that no signal comes to, and where somebody else handles SIGINT, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:
        yield
        return
    came: list[FrameType | None] = []

    def put_off(number: int, frame: FrameType | None) -> None:
        came.append(frame)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, put_off)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            raise KeyboardInterrupt
