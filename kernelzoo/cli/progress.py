"""What people watch while a command works: a bar with the time left, on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from kernelzoo.cli import output
from kernelzoo.files import printable


class Bar:
    """A progress bar over a known number of steps; where standard error is no terminal, a line for each item done.

    Use it as a context manager.
    """

    def __init__(self, steps: int) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._console = output.console(errors=True)
        self._bar = Progress(
            BarColumn(24),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            refresh_per_second=2,  # more would take time from what is measured on the host
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._steps = steps
        self._task = self._bar.add_task("", total=steps)
        self._done = 0
        self._item = 0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def item(self, steps: int) -> None:
        """Begin an item that is worth so many steps; those of the one before are done, whatever was told of them."""
        self._done += self._item
        self._item = steps
        self._bar.update(self._task, completed=self._done)

    def step(self, words: str) -> None:
        """Tell what is done next."""
        self._bar.update(self._task, description=printable(words))
        if self._bar.tasks[0].completed < self._done + self._item:
            self._bar.advance(self._task)

    def say(self, words: str) -> None:
        """Where there is no bar to see, a line about the item just done, with the time left."""
        done = self._done + self._item
        if not self._console.is_terminal and done:
            left = (time.monotonic() - self._started) / done * (self._steps - done)
            self._console.print(f"{words}; about {left:.0f} s left" if done < self._steps else words)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while something else is printed to the same terminal."""
        self._bar.stop()
        yield
        self._bar.start()
