"""Several measuring processes for one command."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kernelzoo import registry
from kernelzoo.cli import options

if TYPE_CHECKING:
    from kernelzoo.measure.gpus import Gpu
    from kernelzoo.measure.guard import Guard


def check_gpus(text: str, device: str) -> list[Gpu]:
    """The GPUs that ``--gpus`` names; none without it. Raises GpusError, or OptionError together with ``--device``."""
    from kernelzoo.measure.gpus import chosen

    if text and device:
        raise options.OptionError("--gpus chooses the devices: leave out --device")
    return chosen(text)


@contextmanager
def asked(
    module: Sequence[Path], device: str, gpus: str, patience: float, ids: Sequence[str], *names: Sequence[str]
) -> Iterator[tuple[Guards, tuple[str, ...]]]:
    """A context with processes for a command, and the ids that its options name; see :func:`options.select`.

    Without ``ids``, those that the modules add. Raises GuardError, GpusError, OptionError or UnknownNameError.
    """
    from kernelzoo.measure.guard import Guard

    modules, places = options.check_modules(module), check_gpus(gpus, device)
    with Guards(lambda gpu: Guard(device, modules, patience=patience, gpu=gpu), places) as guards:
        known = set(guards.first.about.summaries)
        if module and not ids:
            known -= {i.id for i in registry.implementations()}  # this process runs no module
        yield guards, options.select(known, ids, *names)


class Guards:
    """Starts one process at once, and more when there is work. With ``gpus``, each is on the next GPU.

    Use it as a context manager.
    """

    def __init__(self, start: Callable[[Gpu | None], Guard], gpus: Sequence[Gpu] = ()) -> None:
        self._start, self.places = start, gpus
        self.lock = threading.Lock()
        """Guards data that the threads share."""
        self._over = threading.Event()
        self._error: BaseException | None = None
        self.first = self._started(0)
        self._guards = [self.first]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for guard in self._guards:
            guard.close()

    @property
    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs of the processes, without duplicates; empty if none was asked for."""
        found = [guard.about.gpu for guard in self._guards if guard.about.gpu] if self.places else []
        return [gpu for place, gpu in enumerate(found) if gpu not in found[:place]]

    def processes(self, jobs: int, tasks: int) -> int:
        """The number of processes: ``jobs``, or one for each core. At least one for each GPU, and at most one for each
        task."""
        return min(max(jobs or len(os.sched_getaffinity(0)), len(self.places)), tasks)

    def run(self, step: Callable[[Guard], bool], processes: int) -> None:
        """Call ``step`` repeatedly in a thread for each process, until it returns False.

        If a step raises, all threads end, and the error is raised again.
        """
        threads = [threading.Thread(target=self._steps, args=(step, i), daemon=True) for i in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # with a timeout, since a plain join would block Ctrl-C
                thread.join(0.2)
        if self._error is not None:
            raise self._error

    def finish(self, step: Callable[[Guard], bool], processes: int) -> bool:
        """Run the steps; False if Ctrl-C ended them. Then :attr:`over` is true, and a step must add nothing."""
        try:
            self.run(step, processes)
        except KeyboardInterrupt:
            with self.lock:
                self._over.set()
            return False
        return True

    @property
    def over(self) -> bool:
        """Whether the work has ended. A step asks while it holds the lock."""
        return self._over.is_set()

    def _started(self, number: int) -> Guard:
        return self._start(self.places[number % len(self.places)] if self.places else None)

    def _steps(self, step: Callable[[Guard], bool], number: int) -> None:
        try:
            guard = self.first
            if number:
                guard = self._started(number)
                with self.lock:
                    self._guards.append(guard)
            while not self._over.is_set() and step(guard):
                pass
        except BaseException as error:
            if not self._over.is_set():  # else its process was ended on purpose
                self._error = error
                self._over.set()
