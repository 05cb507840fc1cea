"""Kernels that try to get a false time accepted, each by a means that has worked somewhere before.

Each is raced in a process of its own. ``ATTACKS`` says what must become of it: a reason for its rejection, or HONEST,
if its time must be that of the work.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import kernelzoo
from kernelzoo.launch import Bind, Launch, ReturningLaunch

Tensor = torch.Tensor

HONEST = "its time is that of the work"


@dataclass(frozen=True)
class Attack:
    name: str
    op: str
    does: str
    outcome: str
    """A regular expression of the reason, or HONEST."""

    @property
    def id(self) -> str:
        return f"attack/{self.op}/{self.name}"


ATTACKS: list[Attack] = []


def attack(outcome: str, op: str = "softmax") -> Callable[[type], type]:
    def decorate(made: type) -> type:
        ATTACKS.append(Attack(made.__name__, op, (made.__doc__ or "").strip(), outcome))
        kernelzoo.register("attack", op, made.__name__)(_binder(made))
        return made

    return decorate


def _binder(made: type) -> Bind:
    """All launches of a race share what the class keeps."""
    kept: list[Any] = []

    def bind(*tensors: Tensor) -> Launch:
        if not kept:
            kept.append(made())
        launch: Launch = kept[0].bound(*tensors)
        return launch

    bind.__doc__ = made.__doc__
    return bind


def softmax(x: Tensor, out: Tensor) -> None:
    torch.softmax(x.squeeze(2), 1, out=out.squeeze(2))


class Warm:
    """Honest while it is checked."""

    def __init__(self) -> None:
        self.launches, self.sets = 0, list[tuple[Tensor, ...]]()

    def bound(self, *tensors: Tensor) -> Launch:
        self.sets.append(tensors)

        def launch() -> None:
            self.launches += 1
            if self.launches <= len(self.sets) + 45:
                self.work(*tensors)
            else:
                self.cheat(*tensors)

        return launch

    def work(self, *tensors: Tensor) -> None:
        softmax(*tensors)

    def cheat(self, *tensors: Tensor) -> None:
        raise NotImplementedError


@attack(HONEST)
class honest(Warm):
    """The control"""

    def cheat(self, *tensors: Tensor) -> None:
        self.work(*tensors)


@attack("launches did not write")
class works_where_no_clock_runs(Warm):
    """The first launch after a pause does the work of all sets that it knows"""

    last = 0.0

    def cheat(self, *tensors: Tensor) -> None:
        if time.perf_counter() - self.last > 3e-3:
            for one in self.sets[: len(self.sets) // 2]:
                self.work(*one)
        self.last = time.perf_counter()


@attack(HONEST)
class works_ahead_in_a_thread(Warm):
    """A thread works whenever an input has changed, so that nothing is left to do when the clock runs"""

    def __init__(self) -> None:
        super().__init__()
        self.done: dict[int, float] = {}
        self.lock = threading.Lock()

    def ahead(self) -> None:
        while True:
            for x, out in self.sets:
                self.once(x, out)
            time.sleep(1e-5)

    def once(self, x: Tensor, out: Tensor) -> None:
        mark = float(x[0, 0]) + float(x[-1, -1])
        with self.lock:
            if self.done.get(x.data_ptr()) != mark or float(out[0, 0]) < 0:
                softmax(x, out)
                self.done[x.data_ptr()] = mark

    def cheat(self, *tensors: Tensor) -> None:
        if not self.done:
            threading.Thread(target=self.ahead, daemon=True).start()
        self.once(*tensors)


@attack("did not write|elements wrong")
class hands_its_work_to_a_worker(Warm):
    """A thread that lives on does the work, one launch after the other"""

    def cheat(self, *tensors: Tensor) -> None:
        if not hasattr(self, "todo"):
            self.todo: queue.SimpleQueue[tuple[Tensor, ...]] = queue.SimpleQueue()
            threading.Thread(target=self.serve, daemon=True).start()
        self.todo.put(tensors)

    def serve(self) -> None:
        while True:
            self.work(*self.todo.get())


@attack("left child processes behind|did not write")
class works_ahead_in_a_process(Warm):
    """The same in a process that has left its session"""

    started = False

    def cheat(self, *tensors: Tensor) -> None:
        if not self.started:
            self.started = True
            if os.fork() == 0:
                os.setsid()
                if os.fork():
                    os._exit(0)
                while True:
                    for x, out in self.sets:
                        if float(out[0, 0]) < 0:
                            softmax(x, out)
        if self.launches % 2:
            softmax(*tensors)


@attack("elements wrong|did not write|input", op="product")
class keeps_a_digest(Warm):
    """Serves the product that it kept for inputs of the same sums of a sample"""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, tuple[float, Tensor]] = {}

    def work(self, *tensors: Tensor) -> None:
        a, b, out = tensors
        torch.matmul(a, b, out=out)

    def cheat(self, *tensors: Tensor) -> None:
        a, b, out = tensors
        mark = float(a[::16, ::16].sum() > -1e30)
        known = self.kept.get(0)
        if known is None or known[0] != mark:
            self.work(a, b, out)
            self.kept[0] = mark, out.clone()
        else:
            out.copy_(known[1])


@attack(HONEST, op="product")
class keeps_a_digest_of_everything(keeps_a_digest):
    """The same with a digest of both inputs, which always differ"""

    def cheat(self, *tensors: Tensor) -> None:
        a, b, out = tensors
        mark = float(a.double().sum() + 3 * b.double().sum())
        known = self.kept.get(a.data_ptr())
        if known is None or known[0] != mark:
            self.work(a, b, out)
            self.kept[a.data_ptr()] = mark, out
        else:
            out.copy_(known[1])


@attack("a false time|false time|was reported as")
class replaces_the_clock(Warm):
    """Makes the clock of its process slow"""

    def cheat(self, *tensors: Tensor) -> None:
        from kernelzoo.measure import calls, clocks

        true = time.perf_counter
        for module in (clocks, calls):
            if module.perf_counter is true:
                module.perf_counter = lambda: true() / 4  # type: ignore[attr-defined]
        self.work(*tensors)


@attack("elements wrong|did not write")
class replaces_the_checker(Warm):
    """Replaces torch.equal and the operators of comparison, and the module torch itself"""

    def cheat(self, *tensors: Tensor) -> None:
        torch.equal = lambda a, b: True  # type: ignore[assignment]
        library = self.__dict__.setdefault("library", torch.library.Library("aten", "IMPL"))
        for name in ("le.Tensor", "ge.Tensor", "eq.Tensor"):
            try:
                library.impl(name, lambda a, b: torch.ones_like(a, dtype=torch.bool), "CPU")
            except RuntimeError:
                continue
        sys.modules["torch"] = sys.modules["kernelzoo"]
        tensors[1].fill_(0.5)


@attack("elements wrong|did not write")
class finds_what_is_expected(Warm):
    """Looks for the right results among the objects of its process"""

    def cheat(self, *tensors: Tensor) -> None:
        _, out = tensors
        for found in gc.get_objects():
            if isinstance(found, Tensor) and found.dtype == torch.float64 and found.shape == out.shape:
                out.copy_(found)
                return
        out.fill_(0.25)


@attack("elements wrong|did not write")
class collects_garbage(Warm):
    """Works in callbacks of the garbage collector, which run later"""

    def cheat(self, *tensors: Tensor) -> None:
        if not self.__dict__.get("hooked"):
            self.hooked = True
            gc.callbacks.append(lambda phase, info: [self.work(*one) for one in self.sets[:1]] and None)
        tensors[1].fill_(0.25)


@attack("the process (was killed|ended)|hung|SIGKILL|status")
class ends_its_parent(Warm):
    """Kills the process that asked"""

    def cheat(self, *tensors: Tensor) -> None:
        os.kill(os.getppid(), 9)
        time.sleep(60)


@attack("something else wrote|did not write")
class answers_itself(Warm):
    """Writes an answer of its own into every pipe that it has"""

    def cheat(self, *tensors: Tensor) -> None:
        answering = sys.modules["__main__"]
        for found in gc.get_objects():
            if type(found).__name__ == "Worker" and hasattr(found, "say"):
                found.say(done={"value": 1e-7})
        del answering
        tensors[1].fill_(0.25)


@attack(HONEST)
class writes_what_differs(Warm):
    """Reads its output, and writes only what differs"""

    def cheat(self, *tensors: Tensor) -> None:
        x, out = tensors
        found = torch.softmax(x.squeeze(2), 1)
        if not torch.equal(found, out.squeeze(2)):
            out.squeeze(2).copy_(found)


multiprocessing.set_start_method("fork", force=True)
torch.set_num_threads(1)


@attack("work outside the clock")
class delivers_late(Warm):
    """Returns nothing, and computes when its results are copied"""

    def bound(self, *tensors: Tensor) -> Launch:
        x, out = tensors
        return ReturningLaunch(lambda: None, lambda _: softmax(x, out))


@attack(HONEST)
class returns_its_result(Warm):
    """The control of kernels that return"""

    def bound(self, *tensors: Tensor) -> Launch:
        x, out = tensors
        return ReturningLaunch(lambda: torch.softmax(x.squeeze(2), 1), out.squeeze(2).copy_)
