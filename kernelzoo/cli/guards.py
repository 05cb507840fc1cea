"""Several measuring processes that share the work of one command."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kernelzoo.measure.guard import Guard


class Guards:
    """Starts one process at once, and more when there is work for them. Use it as a context manager."""

    def __init__(self, start: Callable[[], Guard]) -> None:
        self._start = start
        self.lock = threading.Lock()
        """For data that the threads share."""
        self._over = threading.Event()
        self._error: BaseException | None = None
        self.first = start()
        self._guards = [self.first]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for guard in self._guards:
            guard.close()

    def run(self, step: Callable[[Guard], bool], processes: int) -> None:
        """Call ``step`` repeatedly, in a thread for each process, until it returns False because nothing is left.

        If a step raises, the others end theirs, and the error is raised again.
        """
        threads = [threading.Thread(target=self._steps, args=(step, i), daemon=True) for i in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # with a timeout, since a plain join would block Ctrl-C
                thread.join(0.2)
        if self._error is not None:
            raise self._error

    def _steps(self, step: Callable[[Guard], bool], number: int) -> None:
        try:
            guard = self.first
            if number:
                guard = self._start()
                with self.lock:
                    self._guards.append(guard)
            while not self._over.is_set() and step(guard):
                pass
        except BaseException as error:
            if not self._over.is_set():  # else its process was ended on purpose
                self._error = error
                self._over.set()
