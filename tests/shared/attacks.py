"""Kernels that try to get a false time accepted, each by a means that has worked somewhere before.

Each is raced in a process of its own. Its decorator says what must become of it: a reason for its rejection, or HONEST,
if its time must be that of the work.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

import kernelzoo
from kernelzoo.launch import Bind, Launch, ResultCopyingLaunch

Tensor = torch.Tensor

HONEST = "its time is that of the work"


def attack(outcome: str, op: str = "softmax") -> Callable[[Bind], Bind]:
    """Register a bind. ``outcome``: a regular expression of the reason of its rejection, or HONEST."""

    def decorate(bind: Bind) -> Bind:
        return kernelzoo.register("attack", op, bind.__name__)(bind)

    return decorate


def softmax(x: Tensor, out: Tensor) -> None:
    torch.softmax(x.squeeze(2), 1, out=out.squeeze(2))


class Kernel:
    """Honest while it is checked; all launches of a race share what it keeps."""

    def __init__(self, cheat: Cheat) -> None:
        self.cheat = cheat
        self.launches, self.sets, self.kept = 0, list[tuple[Tensor, ...]](), dict[Any, Any]()
        self.lock = threading.Lock()

    def bound(self, *tensors: Tensor) -> Launch:
        self.sets.append(tensors)

        def launch() -> None:
            self.launches += 1
            if self.launches <= len(self.sets) + 45:
                self.work(*tensors)
            else:
                self.cheat(self, *tensors)

        return launch

    def work(self, *tensors: Tensor) -> None:
        *inputs, out = tensors
        if len(inputs) == 2:
            torch.matmul(*inputs, out=out)
        else:
            softmax(*inputs, out)

    def once(self, key: str) -> bool:
        """Whether this is the first time that it is asked so."""
        first = key not in self.kept
        self.kept[key] = True
        return first


Cheat = Callable[..., object]
"""What a kernel does once it is warm: of the kernel, and a launch's tensors."""


def warm(cheat: Cheat) -> Bind:
    """A bind that is honest until it is warm."""
    kernel = Kernel(cheat)

    def bind(*tensors: Tensor) -> Launch:
        return kernel.bound(*tensors)

    bind.__name__, bind.__qualname__, bind.__doc__ = cheat.__name__, cheat.__name__, cheat.__doc__
    return bind


@attack(HONEST)
@warm
def honest(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """The control"""
    kernel.work(x, out)


@attack("launches did not write")
@warm
def works_where_no_clock_runs(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """The first launch after a pause does the work of all sets that it knows"""
    if time.perf_counter() - kernel.kept.get("last", 0.0) > 3e-3:
        for one in kernel.sets[: len(kernel.sets) // 2]:
            kernel.work(*one)
    kernel.kept["last"] = time.perf_counter()


@attack(HONEST)
@warm
def works_ahead_in_a_thread(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """A thread works whenever an input has changed, so that nothing is left to do when the clock runs"""

    def ahead() -> None:
        while True:
            for one in kernel.sets:
                once(*one)
            time.sleep(1e-5)

    def once(x: Tensor, out: Tensor) -> None:
        mark = float(x[0, 0]) + float(x[-1, -1])
        with kernel.lock:
            if kernel.kept.get(x.data_ptr()) != mark or float(out[0, 0]) < 0:
                softmax(x, out)
                kernel.kept[x.data_ptr()] = mark

    if kernel.once("thread"):
        threading.Thread(target=ahead, daemon=True).start()
    once(x, out)


@attack("did not write|elements wrong")
@warm
def hands_its_work_to_a_worker(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """A thread that lives on does the work, one launch after the other"""
    todo: queue.SimpleQueue[tuple[Tensor, ...]] = kernel.kept.setdefault("todo", queue.SimpleQueue())

    def serve() -> None:
        while True:
            kernel.work(*todo.get())

    if kernel.once("thread"):
        threading.Thread(target=serve, daemon=True).start()
    todo.put((x, out))


@attack("left child processes behind|did not write")
@warm
def works_ahead_in_a_process(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """The same in a process that has left its session"""
    if kernel.once("process") and os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        while True:
            for one in kernel.sets:
                if float(one[1][0, 0]) < 0:
                    softmax(*one)
    if kernel.launches % 2:
        softmax(x, out)


@attack("elements wrong|did not write|input", op="product")
@warm
def keeps_a_digest(kernel: Kernel, a: Tensor, b: Tensor, out: Tensor) -> None:
    """Serves the product that it kept for inputs of the same sums of a sample"""
    mark = float(a[::16, ::16].sum() > -1e30)
    known = kernel.kept.get(0)
    if known is None or known[0] != mark:
        kernel.work(a, b, out)
        kernel.kept[0] = mark, out.clone()
    else:
        out.copy_(known[1])


@attack(HONEST, op="product")
@warm
def keeps_a_digest_of_everything(kernel: Kernel, a: Tensor, b: Tensor, out: Tensor) -> None:
    """The same with a digest of both inputs, which always differ"""
    mark = float(a.double().sum() + 3 * b.double().sum())
    known = kernel.kept.get(a.data_ptr())
    if known is None or known[0] != mark:
        kernel.work(a, b, out)
        kernel.kept[a.data_ptr()] = mark, out
    else:
        out.copy_(known[1])


@attack("a false time|false time|was reported as")
@warm
def replaces_the_clock(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Makes the clock of its process slow"""
    from kernelzoo.measure import calls, clocks

    true = time.perf_counter
    for module in (clocks, calls):
        if module.perf_counter is true:
            module.perf_counter = lambda: true() / 4  # type: ignore[attr-defined]
    kernel.work(x, out)


def runner() -> Any:
    """The class that runs the turns of this process."""
    return sys.modules["kernelzoo.measure.runner"].Runner  # type: ignore[attr-defined]


@attack("by the judge's clock")
@warm
def shortens_its_report(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Says a third of each turn's time, and leaves out the work of turns in a row"""
    true, kept = runner().run_timed_turn, kernel.kept

    def turn(self: Any, id: str, repeats: int = 1) -> float:
        if repeats == 1:
            kept["last"] = 0.3 * true(self, id)
        else:
            time.sleep(kept["last"] * repeats)
        return float(kept["last"])

    if kernel.once("patched"):
        runner().run_timed_turn = turn
    kernel.work(x, out)


@attack("did not write|elements wrong")
@warm
def answers_early(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Says that a turn is over while a thread works on, and has so many threads that to look through them takes long"""
    turn, once = runner().run_timed_turn, runner().run_turn_once

    def begun(work: Callable[..., object], *given: object) -> float:
        began = time.perf_counter()
        threading.Thread(target=work, args=given, daemon=True).start()
        return 0.9 * (time.perf_counter() - began)

    if kernel.once("patched"):
        for _ in range(4000):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        runner().run_timed_turn = lambda self, id, repeats=1: begun(turn, self, id)
        runner().run_turn_once = lambda self, id: begun(once, self, id) and None
    kernel.work(x, out)


def compiler(code: str) -> None:
    """A process in another session, with the name of torch's compiler."""
    subprocess.Popen([sys.executable, "-c", code, "/torch/_inductor/compile_worker/"], start_new_session=True)


@attack("left child processes behind")
@warm
def leaves_a_compiler_behind(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Begins a process in a turn that has the name of torch's compiler"""
    if kernel.once("process"):
        compiler("import time; time.sleep(60)")
    kernel.work(x, out)


busy = list[threading.Event]()


@attack("while it was stopped")
def works_on_under_a_name(x: Tensor, out: Tensor) -> Launch:
    """A process that was there before works on when the turn is over, while many threads are looked through"""
    if not busy:
        busy.append(threading.Event())
        for _ in range(400):
            threading.Thread(target=busy[0].wait, daemon=True).start()
        compiler("while True: pass")

    def launch() -> None:
        thread = threading.Thread(target=softmax, args=(x, out))  # a new one, so that all are looked through
        thread.start()
        thread.join()

    return launch


@attack("elements wrong|did not write")
@warm
def replaces_the_checker(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Replaces torch.equal and the operators of comparison, and the module torch itself"""
    out.fill_(0.5)
    torch.equal = lambda a, b: True  # type: ignore[assignment]
    library = kernel.kept.setdefault("library", torch.library.Library("aten", "IMPL"))
    for name in ("le.Tensor", "ge.Tensor", "eq.Tensor"):
        try:
            library.impl(name, lambda a, b: torch.ones_like(a, dtype=torch.bool), "CPU")
        except RuntimeError:
            continue
    sys.modules["torch"] = sys.modules["kernelzoo"]


@attack("elements wrong|did not write")
@warm
def finds_what_is_expected(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Looks for the right results among the objects of its process"""
    for found in gc.get_objects():
        if isinstance(found, Tensor) and found.dtype == torch.float64 and found.shape == out.shape:
            out.copy_(found)
            return
    out.fill_(0.25)


@attack("elements wrong|did not write")
@warm
def collects_garbage(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Works in callbacks of the garbage collector, which run later"""
    if kernel.once("hooked"):
        gc.callbacks.append(lambda phase, info: [kernel.work(*one) for one in kernel.sets[:1]] and None)
    out.fill_(0.25)


@attack("the process (was killed|ended)|hung|SIGKILL|status")
@warm
def ends_its_parent(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Kills the process that asked"""
    os.kill(os.getppid(), 9)
    time.sleep(60)


@attack("something else wrote|did not write")
@warm
def answers_itself(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Writes an answer of its own into every pipe that it has"""
    for found in gc.get_objects():
        if type(found).__name__ == "Worker" and hasattr(found, "send_reply"):
            found.send_reply(done={"value": 1e-7})
    out.fill_(0.25)


@attack(HONEST)
@warm
def writes_what_differs(kernel: Kernel, x: Tensor, out: Tensor) -> None:
    """Reads its output, and writes only what differs"""
    found = torch.softmax(x.squeeze(2), 1)
    if not torch.equal(found, out.squeeze(2)):
        out.squeeze(2).copy_(found)


multiprocessing.set_start_method("fork", force=True)
torch.set_num_threads(1)


@attack("work outside the clock|as fast as this host")
def delivers_late(x: Tensor, out: Tensor) -> Launch:
    """Returns nothing, and computes when its results are copied"""
    return ResultCopyingLaunch(lambda: None, lambda _: softmax(x, out))


@attack(HONEST)
def returns_its_result(x: Tensor, out: Tensor) -> Launch:
    """The control of kernels that return"""
    return ResultCopyingLaunch(lambda: torch.softmax(x.squeeze(2), 1), out.squeeze(2).copy_)


must = set[int]()


@attack("elements wrong")
def works_on_what_is_looked_at(x: Tensor, out: Tensor) -> Launch:
    """Works on the last set of a turn, and on the one whose input changes within it"""
    must.clear()  # of an earlier race
    true = runner().prepare_turn

    def prepare_turn(self: Any, id: str, order: list[int], input_copy: Any = (), copy_outs: bool = False) -> None:
        true(self, id, order, input_copy, copy_outs)
        looked_at = {order[-1], *([order[input_copy[0]]] if input_copy else ())}
        must.clear()
        must.update(self._sets[number][1][0].data_ptr() for number in looked_at)

    if true.__name__ != "prepare_turn" or true.__module__ != __name__:
        runner().prepare_turn = prepare_turn

    def launch() -> None:
        if must and out.data_ptr() not in must and bool(x.sum().isfinite()):
            out.fill_(0.002)
        else:
            softmax(x, out)

    return launch


turns = list[float]()


@attack("by the judge's clock|false time")
def begins_slowly(x: Tensor, out: Tensor) -> Launch:
    """Is slow at first, so that its turns are one launch; then it says a third of its time"""
    turns.clear()  # of an earlier race
    true = runner().run_timed_turn

    def turn(self: Any, id: str, repeats: int = 1) -> float:
        turns.append(true(self, id, repeats))
        if len(turns) <= 2:
            time.sleep(0.05)
            return turns[-1] + 0.045
        return 0.3 * turns[-1]

    if true.__module__ != __name__:
        runner().run_timed_turn = turn
    return lambda: softmax(x, out)


@attack("was reported as|false time")
def takes_no_time(x: Tensor, out: Tensor) -> Launch:
    """Says the least number that there is"""
    if runner().run_timed_turn.__module__ != __name__:
        true = runner().run_timed_turn
        runner().run_timed_turn = lambda self, id, repeats=1: min(5e-324, true(self, id, repeats))
    return lambda: softmax(x, out)


@attack(HONEST)
def cuts_the_shared_memory(x: Tensor, out: Tensor) -> Launch:
    """Makes the file shorter that the judge writes into"""
    judge = f"/proc/{os.getppid()}/fd"
    files = [path for path in (f"{judge}/{one}" for one in os.listdir(judge)) if "memfd" in os.readlink(path)]
    assert files

    def launch() -> None:
        softmax(x, out)
        for path in files:
            with suppress(OSError):
                os.truncate(path, 4096)

    return launch
