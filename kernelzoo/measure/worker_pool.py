"""Workers that share a sweep. Each takes the next problem when it is free. No race is split among workers.

A worker is a :class:`kernelzoo.measure.guard.Guard` on one GPU here, or one of :mod:`kernelzoo.measure.over_ray`.
"""

from __future__ import annotations

import queue
import statistics
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from kernelzoo.measure.guard import Guard
from kernelzoo.measure.over_ray import RayWorker
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import GuardError, LostError, RaceLostError

Worker = Guard | RayWorker

AGREE = 1.02
"""Cards of one model may differ by this factor. A card that is slower than the fastest by more is flagged."""

SLOWER = "slower card"
"""The flag of results from a card that is slower by more than AGREE."""

T = TypeVar("T")
R = TypeVar("R")


class WorkerPool:
    """The workers of one sweep, started together. Raises GuardError if one can't start, or two are on one GPU."""

    def __init__(self, starts: Sequence[Callable[[], Worker]]) -> None:
        self._over = False
        begun = [_start_thread(start) for start in starts]
        errors = [error for one in begun if (error := one.exception())]
        self.workers: list[Worker] = [one.result() for one in begun if not one.exception()]
        places = [(gpu.get("host"), gpu["uuid"]) for worker in self.workers if (gpu := worker.about.gpu)]
        if twice := [place for place in places if places.count(place) > 1]:
            words = f"two workers were given one GPU, {twice[0][1]}, and would disturb each other"
            errors.append(GuardError(words))
        for error in errors:
            self.close()
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def first_worker(self) -> Worker:
        return self.workers[0]

    @property
    def devices(self) -> str:
        """The names of the devices, without duplicates."""
        return " and ".join(sorted({worker.about.device_name for worker in self.workers}))

    def close(self) -> None:
        """End the workers."""
        self._over = True
        for worker in self.workers:
            worker.close()

    def each(self, do: Callable[[Worker], R]) -> list[R]:
        """Call ``do`` with all workers at the same time. Returns the results in order, or raises the first error."""
        begun = [_start_thread(partial(do, worker)) for worker in self.workers]
        for one in as_completed(begun):
            one.result()
        return [one.result() for one in begun]

    def hand_out(self, tasks: Sequence[T], do: Callable[[Worker, T], R]) -> Iterator[tuple[Worker, T, R]]:
        """Give each task to one worker, and yield each result as it arrives, in this thread.

        If ``do`` raises anything but RaceLostError, the worker gets no more tasks. After LostError, another
        worker gets the task. These errors and GuardErrors are collected, and raised as one GuardError at the end.
        """
        said: queue.SimpleQueue[tuple[Worker, T, Future[R]] | None] = queue.SimpleQueue()

        def schedule() -> None:
            left, free = deque(tasks), deque(self.workers)
            busy: dict[Future[R], tuple[Worker, T]] = {}
            while busy or (left and free and not self._over):
                while left and free and not self._over:
                    worker, task = free.popleft(), left.popleft()
                    busy[_start_thread(partial(do, worker, task))] = worker, task
                for future in wait(busy, return_when=FIRST_COMPLETED).done:
                    worker, task = busy.pop(future)
                    error = future.exception()
                    if error is None or isinstance(error, RaceLostError):
                        free.append(worker)
                    elif isinstance(error, LostError):
                        left.appendleft(task)
                    said.put((worker, task, future))
            said.put(None)

        _start_thread(schedule)
        lost = list[str]()
        while (one := said.get()) is not None:
            worker, task, future = one
            if isinstance(error := future.exception(), GuardError | LostError):
                lost.append(str(error))
            else:
                yield worker, task, future.result()
        if lost:
            raise GuardError("; ".join(dict.fromkeys(lost)))


@dataclass(frozen=True)
class WorkerTime:
    """One worker's time on the problem that all workers measured."""

    problem: str
    id: str
    median_us: float | None
    """Median microseconds; None if the measurement failed, for the reason ``why``."""
    ratio: float | None
    """Its time divided by the time of the fastest card of the same model."""
    slower: bool
    why: str = ""


def measure_with_each_worker(workers: WorkerPool, problem: Problem, id: str, **how: Any) -> list[WorkerTime]:
    """Measure one implementation on one problem with all workers at once, to compare GPUs of one model."""

    def median(worker: Worker) -> tuple[str, float | None, str]:
        name = worker.about.device_name
        try:
            entries, failed = worker.race(problem, [id], **how)
        except (GuardError, LostError) as error:
            return name, None, str(error)
        if not entries:
            return name, None, failed[0]["reason"]
        return name, statistics.median(entries[0]["stats"]["data"]), ""

    found, checked = workers.each(median), []
    for name, took, why in found:
        same = [other for model, other, _ in found if model == name]
        ratio = took / min(filter(None, same)) if took and len(same) > 1 else None
        slower = ratio is not None and ratio > AGREE
        checked.append(WorkerTime(problem.id, id, took and took * 1e6, ratio, slower, why))
    return checked


def _start_thread(do: Callable[[], R]) -> Future[R]:
    """Call ``do`` in a daemon thread, which can't delay the end of this process. Returns its future."""
    future = Future[R]()

    def run() -> None:
        try:
            future.set_result(do())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
