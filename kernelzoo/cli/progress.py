"""Progress on standard error: a bar with the time left."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from kernelzoo.cli import output
from kernelzoo.files import printable


class Bar:
    """A progress bar with the number of items, the time left and the current step.

    If there is no terminal, :meth:`say` prints a line per item instead. If ``steps`` is None, the bar only shows
    activity until :meth:`set_total` sets the number of steps."""

    def __init__(self, steps: int | None = None) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self._console = output.console(errors=True)
        self._bar = Progress(
            BarColumn(16, table_column=Column(min_width=16)),
            TaskProgressColumn(show_speed=False, table_column=Column(min_width=4)),
            TimeRemainingColumn(table_column=Column(min_width=7)),
            TextColumn(
                "{task.fields[count]}{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
            ),
            console=self._console,
            expand=True,
            refresh_per_second=2,  # more would take time from host measurements
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._steps = steps or 0
        self._task = self._bar.add_task("" if steps else "starting the measuring process", total=steps, count="")
        self._items = 0
        self._lock = threading.RLock()
        """The lock for workers that report at the same time."""
        self._number = 0
        self._done = 0
        self._item = 0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.stop()

    def set_total(self, steps: int, items: int = 0) -> None:
        """Set the number of steps and items, and restart the clock that estimates the time left."""
        self._steps, self._items, self._started = steps, items, time.monotonic()
        self._bar.reset(self._task, total=steps)

    def begin_item(self, steps: int) -> None:
        """Complete the current item, and begin the next one, which has ``steps`` steps."""
        with self._lock:
            self._done += self._item
            self._item = steps
            self._number += 1
            number = min(self._number, self._items)  # an item that fails to start is begun again in parts
            count = f"{number}/{self._items} " if self._items else ""
            self._bar.update(self._task, completed=self._done, count=count)

    def show_step(self, words: str, *, moves: bool = True) -> None:
        """Show the current step, and advance the bar if ``moves``, but not beyond the end of the current item."""
        with self._lock:
            self._bar.update(self._task, description=printable(words))
            if moves and self._steps and self._bar.tasks[0].completed < self._done + self._item:
                self._bar.advance(self._task)

    def say(self, words: str) -> None:
        """If no bar is shown, print ``words`` about the finished item, with the time left."""
        done = self._done + self._item
        if not self._console.is_terminal and done:
            left = (time.monotonic() - self._started) / done * (self._steps - done)
            self._console.print(f"{words}; about {left:.0f} s left" if done < self._steps else words)

    @contextmanager
    def hide_while_printing(self) -> Iterator[None]:
        """A context that hides the bar while other text is printed."""
        self._bar.stop()
        yield
        self._bar.start()
