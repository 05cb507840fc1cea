"""A runner in a separate process, which is stopped between requests.

So a kernel can't work between the change of its inputs and the start of a turn. Child processes are stopped too.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from time import clock_gettime, perf_counter, sleep
from typing import TYPE_CHECKING, Any

from kernelzoo.children import child_processes_of
from kernelzoo.errors import ContractError, PicklableErrorMixin
from kernelzoo.lazy import torch
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import IMPORTING, WAITING, DiedError, GuardError, Json, WorkerProcess, say_nothing

if TYPE_CHECKING:
    from kernelzoo.measure.judge.memory import TensorSets

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <sys/prctl.h>

_ENDING = 1.0
"""Most seconds to wait for processes that were killed."""

_GPU_ENDING = 30.0
"""Most seconds until the driver has ended the GPU work of a killed process."""

WORKED = 0.3e-3
"""The most seconds that a process may continue to run until a stop signal reaches it."""

_LEGAL = ("/torch/_inductor/compile_worker/", "from multiprocessing.resource_tracker import main")
"""Parts of the command lines of allowed child processes: torch's compiler, and multiprocessing's resource tracker.
A process that starts during a turn is not allowed."""


class RaisedError(PicklableErrorMixin, Exception):
    """An implementation's error. ``outcome``: ``refused`` if it can't do the problem, ``failed`` for other errors."""

    def __init__(self, outcome: str, words: str) -> None:
        super().__init__(words)
        self.outcome, self.words = outcome, words


class RunnerProcess(WorkerProcess):
    """A :class:`kernelzoo.measure.runner.Runner` in another process."""

    def __init__(self, device: str, modules: Sequence[str], patience: float, waiting: str | None) -> None:
        self._apart = False
        """Whether the process is stopped between requests. This starts when the runners' processes are known."""
        self.declared: list[str] = []
        """The names of the operations that its files declare."""
        self.took = 0.0
        """Seconds of the last request until it was stopped, by this process's clock."""
        self._stopped: list[int] = []
        self._before: list[int] = []
        """The processes that were stopped before the last request."""
        self._used = dict[int, float]()
        """Each process's run time in seconds when it was asked to stop; 0 if the process began during the request."""
        self._seen: tuple[int, set[int]] = 0, set()
        """The last search for strays: the machine's count of started processes at that time, and the strays."""
        self.broken = False
        """Whether its process has ended or can't be trusted any more."""
        super().__init__(device, modules, patience=patience, environment={WAITING: waiting}, start=False)

    @classmethod
    def start_all(
        cls, device: str, modules_by_runner: Mapping[str, Sequence[str]], patience: float, waiting: str | None
    ) -> tuple[dict[str, RunnerProcess], dict[str, str]]:
        """Start runners in parallel. Returns them, and why others can't start. Raises if kernelzoo's own, "", can't."""
        lost = dict[str, str]()
        runners = {name: cls(device, modules, patience, waiting) for name, modules in modules_by_runner.items()}
        with ThreadPoolExecutor(len(runners)) as threads:
            list(threads.map(cls._spawn, runners.values()))
            _note_own_processes(runners.values())  # before any code of a user runs
            opened = {name: threads.submit(runner._open) for name, runner in runners.items()}
        for name, one in opened.items():
            if (error := one.exception()) is None:
                runners[name]._apart = True
                runners[name]._pause_processes()
            elif name and isinstance(error, GuardError):
                lost[name] = str(error)
                del runners[name]
            else:
                raise error
        return runners, lost

    def _register_operations(self, descriptions: Sequence[Json]) -> None:
        """Record only the operations' names. Their definitions come from the judge, not from an untrusted runner."""
        self.declared = [str(one.get("name", "")) for one in descriptions]

    def restart(self) -> None:
        self._stop()
        self._apart = self.broken = False
        self._spawn()
        _note_own_processes([self])
        self._apart = True
        self._open()

    @property
    def processes(self) -> Sequence[int]:
        """The id of the runner's process. Empty if the process does not run."""
        return [self._process.pid] if self._process is not None and self._process.poll() is None else []

    def _answer(self, request: Json, progress: Any, patience: float) -> Json:
        if not self._apart:
            return super()._answer(request, progress, patience)
        self._before = self._stopped
        _send_signal(self._stopped, signal.SIGCONT)
        started = perf_counter()
        try:
            return super()._answer(request, progress, patience)
        except DiedError:
            self.broken = True
            raise
        finally:
            self.took = self._pause_processes() - started

    def run_seconds_since_stop(self) -> float:
        """Return the most seconds that one of the runner's processes has run since the last stop signal."""
        used = [(_run_seconds(process), ran) for process, ran in self._used.items()]
        return max([0.0, *(now - ran for now, ran in used if now < math.inf)])

    @contextlib.contextmanager
    def answer_in_background(self, request: Json) -> Iterator[None]:
        """Return a context during which a trusted runner answers. If the runner dies, the next request raises that."""
        _send_signal(self._stopped, signal.SIGCONT)
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(super()._answer, request, say_nothing, max(IMPORTING, self._patience))
            try:
                yield
            finally:
                with contextlib.suppress(DiedError, GuardError):
                    answer.result()
                self._pause_processes()

    def end(self) -> None:
        """Kill the runner's process and all that it has started. The next request raises DiedError."""
        self.broken = True
        _send_signal(self._all_process_ids(), signal.SIGKILL)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GPU_ENDING)

    def _stop(self) -> None:
        _send_signal(self._all_process_ids()[1:], signal.SIGKILL)
        super()._stop()

    def _pause_processes(self) -> float:
        """Stop the runner and its descendants. Returns the time at which it had stopped, by ``perf_counter``."""
        for process in self.processes:
            _send_signal([process], signal.SIGSTOP)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process, signal.SIGSTOP)
        known = {process: _run_seconds(process) for process in self._stopped[1:]}
        for process in self.processes if not self.broken else ():  # a signal may arrive late
            os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        halted, known = perf_counter(), known | {process: _run_seconds(process) for process in self.processes}
        self._stopped = self._all_process_ids()
        _send_signal(self._stopped, signal.SIGSTOP)
        self._used = dict.fromkeys(self._stopped, 0.0) | known
        return halted

    def _all_process_ids(self) -> list[int]:
        """Return the ids of the runner's process and of all processes that it has started."""
        return [*self.processes, *self._stray_processes()] if self.processes else []

    def _stray_processes(self) -> set[int]:
        """Return the *strays*: processes, even orphans, that the runner has started. No runner itself counts."""
        assert self._process is not None
        begun = _count_started_processes()
        if begun and begun == self._seen[0]:  # no process of this machine has started another since
            return self._seen[1]
        found, left = set[int](), [self._process.pid, os.getpid()]
        while left:
            place = left.pop()
            new = child_processes_of(place) - found - _own_ids
            found |= new
            left += new
        self._seen = begun, found
        return found

    def _stray_names(self) -> dict[int, str]:
        """Return the strays' names by id, except compilers that ran before the request, and their children."""
        return {one: name for one in sorted(self._stray_processes()) if (name := _name_stray(one, self._before))}

    def end_strays(self) -> list[str]:
        """Kill the running strays, except compilers. Returns the strays' names."""
        left = remaining = self._stray_names()
        until = perf_counter() + _ENDING
        # A stray may have started another just before it was killed. The next lane would be blamed for that.
        while remaining and perf_counter() < until:
            _send_signal(remaining, signal.SIGKILL)
            sleep(1e-3)
            remaining = self._stray_names()
        return list(left.values())

    def ask(self, call: str, **arguments: Any) -> Any:
        """Call a method of the runner. Raises RaisedError, ContractError or DiedError."""
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # the judge's writes have arrived before another process reads
            torch.cuda.synchronize()
        self._in_hand = str(arguments.get("id", ""))
        done = self._answer({"do": "call_runner", "call": call, "arguments": arguments}, say_nothing, self._patience)
        match done:
            case {"raised": "wrong", "words": str() as words, "kind": str() as kind}:
                raise ContractError(words, kind)
            case {"raised": "refused" | "failed" as outcome, "words": str() as words}:
                raise RaisedError(outcome, words)
            case {"value": value}:
                left = self.end_strays() if call in ("run_timed_turn", "run_turn_once", "release") else []
                if left and call != "release":
                    raise ContractError(f"left child processes behind: {', '.join(left)}", "changes the process")
                return value
        raise DiedError(self._in_hand, f"something else answered for {call}: {str(done)[:80]}")

    def open_sets(self, problem: Problem, sets: TensorSets, timed: str) -> None:
        self.ask("open_sets", problem=asdict(problem), memory=sets.handle, timed=timed)


_own_ids: set[int] = set()
"""The ids of all runners' processes, and of the processes that end them when the judge ends."""


def _note_own_processes(runners: Iterable[RunnerProcess]) -> None:
    """Record which processes belong to the runners themselves."""
    for process in (pid for runner in runners for pid in runner.processes):
        _own_ids.update({process}, child_processes_of(process), child_processes_of(os.getpid()))


def own_pids() -> set[int]:
    """Return the ids of this process, and of those that belong to its runners."""
    return {os.getpid(), *_own_ids}


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent has ended, so that they can be found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _send_signal(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _count_started_processes() -> int:
    """Return the number of processes and threads started since boot, as Linux counts them; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat", "rb", 0) as counts:
        return int(counts.read().partition(b"\nprocesses ")[2].partition(b"\n")[0])
    return 0


def _run_seconds(process: int) -> float:
    """Return the seconds that all threads of a process have run; infinity if it has ended."""
    with contextlib.suppress(OSError):
        return clock_gettime(~process << 3 | 2)  # the process's clock; see <linux/posix-timers.h>
    return math.inf


def _name_stray(process: int, earlier_processes: Collection[int]) -> str:
    """Return a stray process's name and id; "" if it ended, or belongs to an earlier compiler."""
    with contextlib.suppress(OSError):
        state, parent, *_ = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        command = _command(process)
        known = [_command(one) for one in (process, int(parent)) if one in earlier_processes]
        if state not in "ZX" and not any(legal in one for one in known for legal in _LEGAL):
            return f"{os.path.basename(command.split()[0]) if command.split() else 'a process'} ({process})"
    return ""


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
