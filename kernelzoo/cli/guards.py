"""Several measuring processes for one command."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Self, TypeVar

from kernelzoo import registry
from kernelzoo.cli import options
from kernelzoo.measure.gpus import Gpu, parse_gpus
from kernelzoo.measure.guard import Guard

T = TypeVar("T")
R = TypeVar("R")
W = TypeVar("W")


def check_gpus(text: str, device: str) -> list[Gpu]:
    """Return the GPUs that ``--gpus`` names, or []. Raises GpusError, or OptionError if ``--device`` is given too."""
    if text and device:
        raise options.OptionError("--gpus chooses the devices: leave out --device")
    return parse_gpus(text)


def run_in_threads(
    tasks: Iterable[T], do: Callable[[W, T], Iterable[R]], workers: Sequence[W]
) -> Iterator[tuple[W, T, R]]:
    """Run each task on the next free worker. Yield (worker, task, result) as soon as a result arrives.

    Each worker has a thread. If a worker raises an error, it is raised here. After that or Ctrl-C, no task begins.
    """
    left, said, over = deque(tasks), queue.SimpleQueue[Any](), threading.Event()

    def work(worker: W) -> None:
        try:
            while not over.is_set():
                try:
                    task = left.popleft()
                except IndexError:
                    break
                for result in do(worker, task):
                    said.put((worker, task, result))
        except BaseException as error:
            said.put(error)
        said.put(None)

    for worker in workers:
        threading.Thread(target=work, args=(worker,), daemon=True).start()
    at_work = len(workers)
    try:
        while at_work:
            one = said.get()
            if isinstance(one, BaseException):
                raise one
            at_work -= one is None
            if one is not None:
                yield one
    finally:
        over.set()


class MeasuringProcesses:
    """A group of measuring processes, on ``gpus`` in turn. The first starts at once, others when they get a task."""

    def __init__(self, start: Callable[[Gpu | None], Guard], gpus: Sequence[Gpu] = ()) -> None:
        self._start, self.places = start, gpus
        self._guards: list[Guard] = []
        self.first = self._start_guard(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for guard in self._guards:
            guard.close()

    @property
    def gpus(self) -> list[dict[str, Any]]:
        """The distinct GPUs that the processes use; empty if --gpus was not given."""
        found = [guard.about.gpu for guard in self._guards if guard.about.gpu] if self.places else []
        return [gpu for place, gpu in enumerate(found) if gpu not in found[:place]]

    def count_processes(self, jobs: int, tasks: int) -> int:
        """Return the number of processes: ``jobs``, or one per core; at least one per GPU, at most one per task."""
        return min(max(jobs or len(os.sched_getaffinity(0)), len(self.places)), tasks)

    def run_tasks(
        self, tasks: Iterable[T], do: Callable[[Guard, T], Iterable[R]], processes: int
    ) -> Iterator[tuple[Guard, T, R]]:
        """Run each task in the next free process; see :func:`run_in_threads`. ``processes``: how many to use."""
        starts: list[Callable[[], Guard]] = [lambda: self.first]
        starts += [cache(partial(self._start_guard, number)) for number in range(1, processes)]

        def run_task(start: Callable[[], Guard], task: T) -> Iterator[tuple[Guard, R]]:
            guard = start()
            for result in do(guard, task):
                yield guard, result

        for _, task, (guard, result) in run_in_threads(tasks, run_task, starts[:processes]):
            yield guard, task, result

    def _start_guard(self, number: int) -> Guard:
        guard = self._start(self.places[number % len(self.places)] if self.places else None)
        self._guards.append(guard)
        return guard


@contextmanager
def open_processes_for_ids(
    module: Sequence[Path], device: str, gpus: str, patience: float, ids: Sequence[str], *filters: Sequence[str]
) -> Iterator[tuple[MeasuringProcesses, tuple[str, ...]]]:
    """A context with a command's measuring processes, and the ids that :func:`options.select_ids` selects.

    ``filters``: the operations, backends and variants. If modules are given but no ``ids``, only ids that the modules
    add are selected. Raises GuardError, GpusError, OptionError or UnknownNameError."""
    modules, places = options.check_modules(module), check_gpus(gpus, device)
    with MeasuringProcesses(lambda gpu: Guard(device, modules, patience=patience, gpu=gpu), places) as guards:
        known = set(guards.first.about.summaries)
        if module and not ids:
            known -= {i.id for i in registry.implementations()}  # the module ran only in the guard's process
        yield guards, options.select_ids(known, ids, *filters)
