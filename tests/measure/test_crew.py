"""A crew: problems go to whoever is free, and what a worker's end costs."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kernelzoo.measure import Problem
from kernelzoo.measure.worker_pool import WorkerPool, measure_with_each_worker
from kernelzoo.measure.worker_process import GuardError, LostError, ProcessDescription, RaceLostError


class Pretended:
    """A worker that does what it is told, for every task or race."""

    def __init__(self, uuid: str, do: Callable[[Any], Any] = lambda task: task, device: str = "a card") -> None:
        self.about = ProcessDescription("cuda:0", device, {}, {}, {"index": 0, "uuid": uuid})
        self.do, self.closed = do, False

    def race(self, problem: Problem, ids: list[str], **how: Any) -> tuple[list[Any], list[Any]]:
        return self.do(problem)

    def find_fuzzing_limits(self, id: str) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.closed = True


def handed(*workers: Pretended, tasks: int = 6) -> tuple[list[int], str]:
    """What was done, sorted; and the error that was raised at the end."""
    done, error = [], ""
    with WorkerPool([lambda worker=worker: worker for worker in workers]) as crew:
        try:
            for _, task, found in crew.hand_out(range(tasks), lambda worker, task: worker.do(task)):  # type: ignore
                assert task == found
                done.append(task)
        except GuardError as raised:
            error = str(raised)
    assert all(worker.closed for worker in workers)
    return sorted(done), error


def failing(error: Exception, at: int) -> Callable[[int], int]:
    def do(task: int) -> int:
        if task == at:
            raise error
        return task

    return do


def test_a_worker_that_fails_costs_the_task_in_its_hands() -> None:
    do = failing(GuardError("gone"), 2)
    assert handed(Pretended("a", do), Pretended("b", do)) == ([0, 1, 3, 4, 5], "gone")
    assert handed(Pretended("a", do)) == ([0, 1], "gone")


def test_the_task_of_a_lost_worker_goes_to_another_even_if_that_is_idle_by_then() -> None:
    begun = threading.Event()

    def lost(task: int) -> int:
        begun.set()
        time.sleep(0.3)  # the other has done the rest by then
        raise LostError("a host went away")

    def quick(task: int) -> int:
        begun.wait(10)
        return task

    assert handed(Pretended("a", lost), Pretended("b", quick)) == ([0, 1, 2, 3, 4, 5], "a host went away")
    assert handed(Pretended("a", lost), Pretended("b", lost)) == ([], "a host went away")


def test_a_task_that_nobody_can_do_leaves_its_worker_at_work() -> None:
    do = failing(RaceLostError("nobody"), 2)
    assert handed(Pretended("a", do)) == ([0, 1, 3, 4, 5], "nobody")


def test_what_is_no_end_of_a_worker_is_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        handed(Pretended("a", lambda task: 1 // 0))


def test_a_worker_that_cannot_start_ends_the_others() -> None:
    fine = Pretended("a")

    def start() -> Pretended:
        raise GuardError("no such GPU")

    with pytest.raises(GuardError, match="no such GPU"):
        WorkerPool([lambda: fine, start])
    assert fine.closed


def test_cards_are_compared_with_the_fastest_of_their_model() -> None:
    def takes(seconds: float) -> Callable[[Any], Any]:
        return lambda problem: ([{"stats": {"data": [seconds]}}], [])

    def broken(problem: Any) -> Any:
        raise GuardError("no")

    times = {"a": 1.0, "b": 1.019, "c": 1.021}
    workers = [Pretended(uuid, takes(seconds)) for uuid, seconds in times.items()]
    workers += [Pretended("d", broken), Pretended("e", takes(9.0), "another card")]
    with WorkerPool([lambda worker=worker: worker for worker in workers]) as crew:
        found = measure_with_each_worker(crew, Problem("softmax", (4, 4), "float32"), "torch/softmax/eager")
    assert [check.ratio for check in found] == [1.0, 1.019, 1.021, None, None]
    assert [check.slower for check in found] == [False, False, True, False, False]
    assert [check.median_us for check in found] == [*(1e6 * seconds for seconds in times.values()), None, 9e6]
    assert [check.why for check in found] == ["", "", "", "no", ""]
