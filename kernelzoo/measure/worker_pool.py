"""Workers that share a sweep. Each takes the next problem when it is free, and no race is split.

A worker is a :class:`kernelzoo.measure.guard.Guard` bound to one GPU of this machine, or one elsewhere; see
:mod:`kernelzoo.measure.over_ray`.
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
from typing import Any, Protocol, Self, TypeVar

from kernelzoo.errors import KernelZooError
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import About, GuardError, Json

AGREE = 1.02
"""A card slower than the fastest of its model by this factor is flagged."""

SLOWER = "slower card"
"""The flag of results of such a card."""

T = TypeVar("T")
R = TypeVar("R")


class LostError(KernelZooError, RuntimeError):
    """A worker is lost by no fault of its problem, which another worker takes."""


class RaceLostError(GuardError):
    """A task that no worker can do. Its worker goes on."""


class Worker(Protocol):
    """Measures one race at a time."""

    @property
    def about(self) -> About: ...

    def ceilings(self) -> list[float] | None: ...

    @property
    def race(self) -> Callable[..., tuple[list[Json], list[Json]]]: ...

    def largest(self, id: str) -> Json: ...

    def unmetered(self) -> str: ...

    def close(self) -> None: ...


class WorkerPool:
    """The workers of one sweep, started together.

    Use it as a context manager. Raises GuardError if one can't start, or two are on one GPU.
    """

    def __init__(self, starts: Sequence[Callable[[], Worker]]) -> None:
        self._over = False
        begun = [_begun(start) for start in starts]
        errors = [error for one in begun if (error := one.exception())]
        self.workers: list[Worker] = [one.result() for one in begun if not one.exception()]
        for error in errors:
            self.close()
            raise error
        seen = set[tuple[str, str]]()
        for worker in self.workers:
            gpu = worker.about.gpu or {}
            place = str(gpu.get("host", "")), str(gpu.get("uuid", id(worker)))
            if place in seen:
                self.close()
                raise GuardError(f"two workers were given one GPU, {place[1]}, and would disturb each other")
            seen.add(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def first(self) -> Worker:
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
        """The results of all workers, run at the same time, in their order. Raises what one of them raises."""
        begun = [_begun(partial(do, worker)) for worker in self.workers]
        for one in as_completed(begun):
            one.result()
        return [one.result() for one in begun]

    def hand_out(self, tasks: Sequence[T], do: Callable[[Worker, T], R]) -> Iterator[tuple[Worker, T, R]]:
        """Have each task done by one worker, and yield each result as it comes, in this thread.

        A worker that raises anything but RaceLostError gets no more tasks. Its task is lost, unless it raised
        LostError: then another worker takes it. LostError and GuardError are raised at the end, once all other tasks
        are done; any other error at once.
        """
        said = queue.SimpleQueue[tuple[Worker, T, Future[R]] | None]()

        def schedule() -> None:
            left, free, busy = deque(tasks), deque(self.workers), dict[Future[R], tuple[Worker, T]]()
            while busy or (left and free and not self._over):
                while left and free and not self._over:
                    worker, task = free.popleft(), left.popleft()
                    busy[_begun(partial(do, worker, task))] = worker, task
                for future in wait(busy, return_when=FIRST_COMPLETED).done:
                    worker, task = busy.pop(future)
                    error = future.exception()
                    if error is None or isinstance(error, RaceLostError):
                        free.append(worker)
                    elif isinstance(error, LostError):
                        left.appendleft(task)
                    said.put((worker, task, future))
            said.put(None)

        _begun(schedule)
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
class Checked:
    """One worker's time on the problem that all workers measured."""

    problem: str
    id: str
    seconds: float | None
    """None if the measurement failed."""
    ratio: float | None
    """Time over that of the fastest card of the same model."""
    why: str = ""
    """Why the measurement failed."""

    @property
    def slower(self) -> bool:
        return self.ratio is not None and self.ratio > AGREE

    def document(self) -> Json:
        median = None if self.seconds is None else self.seconds * 1e6
        return {
            "problem": self.problem,
            "id": self.id,
            "median_us": median,
            "ratio": self.ratio,
            "slower": self.slower,
            "why": self.why,
        }


def compared(crew: WorkerPool, problem: Problem, id: str, **how: Any) -> list[Checked]:
    """Measure one implementation on one problem on every worker at once. Cards of one model should agree."""

    def median(worker: Worker) -> tuple[float | None, str]:
        try:
            entries, failed = worker.race(problem, [id], **how)
        except (GuardError, LostError) as error:
            return None, str(error)
        if not entries:
            return None, failed[0]["reason"]
        return statistics.median(entries[0]["stats"]["data"]), ""

    found = crew.each(median)
    names = [worker.about.device_name for worker in crew.workers]
    fastest = dict[str, float]()
    for name, (seconds, _) in zip(names, found, strict=True):
        if seconds is not None:
            fastest[name] = min(seconds, fastest.get(name, seconds))
    alone = {name for name in names if names.count(name) == 1}
    return [
        Checked(problem.id, id, seconds, None if seconds is None or name in alone else seconds / fastest[name], why)
        for name, (seconds, why) in zip(names, found, strict=True)
    ]


def _begun(do: Callable[[], R]) -> Future[R]:
    """The outcome of a call in a thread for which this process does not wait at its end."""
    future = Future[R]()

    def run() -> None:
        try:
            future.set_result(do())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
