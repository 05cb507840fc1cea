"""The parent's side of a measuring process: starts it, sends requests, and replaces it if it dies or hangs.

Nothing that the process does is trusted. It may print forever, answer nonsense, close its pipe or not end when killed.
It may leave processes that hold the pipe open.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import connection
from typing import IO, Any, Self

from kernelzoo import children, operations
from kernelzoo.errors import CacheWarning, KernelZooError, PicklableErrorMixin
from kernelzoo.files import printable
from kernelzoo.measure.gpus import Gpu
from kernelzoo.measure.problems import Problem

IMPORTING = 180.0
"""The seconds that a start may always take, since torch may load from a cold disk."""

SHORT = ", most often because memory ran out"
"""The text with the likely reason for SIGKILL."""

ENDED = "ended with status"
"""The text about a process that no signal killed, so that its own code ended it."""

_ENDING = 10.0
"""Seconds to wait for the end of a killed process, which the driver may block forever."""

_RAISED = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt)\b")
"""The line of a traceback that names an exception. Libraries may print more lines after it."""

_LIVENESS = 1.0
"""Seconds between checks whether the process still exists."""

_LONGEST = 64 * 2**20
"""The most bytes of one answer; the largest race takes a thousandth of that."""

Json = dict[str, Any]
Progress = Callable[[str, str], None]
Judge = Callable[[Json], str]
"""A function that returns how an answer differs from the request; "" if it matches."""


def command(program: str) -> list[str]:
    """Return the command that runs a module of kernelzoo in a new process."""
    return [sys.executable, "-P", "-m", program]


class GuardError(KernelZooError, RuntimeError):
    """The measuring process can't start, or refuses a request."""


class LostError(KernelZooError, RuntimeError):
    """A worker is lost by no fault of its problem, so another worker takes the problem."""


class RaceLostError(GuardError):
    """A task has lost too many workers and is given up. Its worker goes on with other tasks."""


class DiedError(PicklableErrorMixin, Exception):
    """The measuring process died or was killed. ``id`` is the implementation that it was running, or ""."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id, self.reason = id, reason


@dataclass(frozen=True)
class ProcessDescription:
    """A measuring process's description of itself: the device, and the implementations it can measure."""

    device: str
    device_name: str
    versions: dict[str, str]
    summaries: dict[str, str]
    """The first line of each implementation's docstring, by id, including the user's modules."""
    gpu: Json | None = None
    """The ``index`` and ``uuid`` of the GPU, and the ``host`` if it is another machine; None without a GPU."""
    host: Json = field(default_factory=dict)
    """If the worker is on another machine, that machine's description as ``machine``, as in a results file."""
    files: dict[str, str] = field(default_factory=dict)
    """For each implementation's id, the user's file that registers it."""
    refused: dict[str, str] = field(default_factory=dict)
    """The reasons why users' files can't be used, by path, if only those files are lost."""


WAITING = "OMP_WAIT_POLICY"
"""The environment variable that sets how OpenMP's threads wait for work."""


class WorkerProcess:
    """A process that runs the module ``program`` and answers requests. Use it as a context manager.

    ``patience``: seconds without a reply after which it counts as hung. ``gpu``: the only GPU that it sees.
    ``environment``: changed variables; None removes one. If ``start``, it starts now. Raises GuardError if it can't.
    """

    program = "kernelzoo.measure.worker"

    def __init__(
        self,
        device: str = "",
        modules: Sequence[str] = (),
        *,
        patience: float = 180.0,
        gpu: Gpu | None = None,
        opening: Json | None = None,
        environment: Mapping[str, str | None] | None = None,
        start: bool = True,
    ) -> None:
        self._device = device or ("cuda" if gpu else "")  # never fall back to the host for a GPU that can't be used
        self._modules, self._patience = [os.path.abspath(module) for module in modules], patience
        self._gpu, self._closed = gpu, False
        self._environment = dict(environment or {})
        if gpu:
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu.visible
        if children.SCRATCH not in os.environ:
            self._environment[children.SCRATCH] = folder = tempfile.mkdtemp(prefix="kernelzoo-")
            self._clean = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._opening: Json = dict(opening or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: IO[bytes] | None = None
        self._lifeline: int | None = None
        self._pending = bytearray()
        self._said: _OutputTail | None = None
        self._number, self._in_hand = 0, ""
        self.told: Json = {}
        """The data of the last progress message."""
        self.about: ProcessDescription
        if start:
            self._spawn()
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process. It is not restarted, even if a thread still waits for an answer."""
        self._closed = True
        self._stop()
        if children.SCRATCH not in os.environ:
            self._clean()

    def _spawn(self) -> None:
        """Start the measuring process. The process runs no code of a user yet."""
        if self._closed:
            raise GuardError("the measuring process was ended")
        read, write = os.pipe()
        alive, self._lifeline = os.pipe()
        environment = {**children.child_env(), **self._environment}
        self._process = subprocess.Popen(
            [*command(self.program), str(write), str(alive)],
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[write, alive],
            bufsize=0,
            start_new_session=True,
        )
        os.close(write)
        os.close(alive)
        self._replies, self._pending = os.fdopen(read, "rb", buffering=0), bytearray()
        assert self._process.stdout is not None
        self._said = _OutputTail(self._process.stdout)
        self._ask_at_start({"do": "confirm"})

    def _ask_at_start(self, request: Json) -> Json:
        """Return the answer to a request during the start. Raises GuardError."""
        try:
            return self._answer(request, say_nothing, max(self._patience, IMPORTING))
        except DiedError as error:
            self._stop()
            raise GuardError(f"the measuring process did not start: {error.reason}") from None
        except GuardError:
            self._stop()
            raise

    def _open(self) -> None:
        """Let the process load the user's files. Store the process's description in ``about``. Raises GuardError."""
        done = self._ask_at_start({"do": "open", "device": self._device, "modules": self._modules, **self._opening})
        self._ask_at_start({"do": "confirm"})
        try:
            self._register_operations(done.get("operations", ()))
            given = {name: done[name] for name in ("device", "device_name", "versions", "summaries")}
            more: dict[str, Any] = {name: dict(done.get(name, {})) for name in ("files", "refused")}
            index = self._gpu.index if self._gpu else int(done["device"].partition(":")[2] or 0)
            gpu = {"index": index, "uuid": done["gpu"]} if done.get("gpu") else None
            self.about = ProcessDescription(**given, **more, gpu=gpu)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._stop()
            raise GuardError(f"the measuring process says nothing sensible of itself: {error!r:.80}") from None

    def _register_operations(self, said: Sequence[Json]) -> None:
        """Register the operations that the process describes."""
        for one in said:
            operations.known.register_signature(one)

    def restart(self) -> None:
        """Replace the measuring process by a new one."""
        self._stop()
        self._spawn()
        self._open()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            children.kill_process_group(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING)
            for pipe in (process.stdin, self._replies):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None

    def tables(self, backends: Sequence[str], ops: Sequence[str]) -> Json:
        """Return ``card``, the GPU or None; ``declared``, the tunable tables; ``unavailable``, reasons by backend."""
        return self._ask_safely({"do": "tables", "backends": list(backends), "ops": list(ops)})

    def plans(self, id: str, problems: Sequence[Problem], values: Sequence[Mapping[str, int]]) -> list[list[str]]:
        """Return each problem's plan with each table; see :func:`kernelzoo.measure.planning.hash_plans`."""
        request = {"do": "plans", "id": id, "problems": [asdict(p) for p in problems]}
        found: list[list[str]] = self._ask_safely({**request, "values": [dict(one) for one in values]})["plans"]
        return found

    def _ask_safely(self, request: Json) -> Json:
        """Return the reply to a request that runs no kernel of a user. Raises GuardError if the process dies."""
        try:
            return self._ask(request, say_nothing, at_least=IMPORTING)
        except DiedError as error:
            self.restart()
            raise GuardError(f"{request['do']} could not be answered: {error.reason}") from None

    def _ask(self, request: Json, progress: Progress, *, at_least: float = 0.0, judge: Judge = lambda done: "") -> Json:
        """Send a request and wait for its answer. Each step may take ``patience`` seconds, or ``at_least`` if longer.

        Raises DiedError, or GuardError if the process refuses the request.
        """
        patience = max(self._patience, at_least)
        if self._process is None:  # it died, and died again as it started
            self.restart()
        self._in_hand = ""
        done = self._answer(request, progress, patience)
        if words := judge(done):
            raise DiedError(self._in_hand, f"the answer does not match the request: {words}")
        # If another process forged the answer, the true one follows and fails this check.
        self._answer({"do": "confirm"}, say_nothing, patience)
        return done

    def _answer(self, request: Json, progress: Progress, patience: float) -> Json:
        """Send a request, and return its answer. Each reply must have the request's secret random number."""
        assert self._process is not None and self._process.stdin is not None
        self._number, stage = secrets.randbits(63), ""
        try:
            self._process.stdin.write(json.dumps({**request, "number": self._number}).encode() + b"\n")
        except OSError:
            raise DiedError(self._in_hand, self._describe_end()) from None
        until = time.monotonic() + patience
        while True:
            line = self._next_reply(until)
            if line is None:
                where = f" in {stage} of {self._in_hand}" if stage else ""
                raise DiedError(self._in_hand, f"hung{where}: no sign of life for {patience:g} s")
            if not line:
                raise DiedError(self._in_hand, self._describe_end())
            match _parse_reply(line):
                case {"warning": str() as words}:  # from any thread, at any time
                    warnings.warn(printable(words), CacheWarning, stacklevel=2)
                case {"done": dict() as done, "number": self._number}:
                    return done
                case {"error": str() as error, "number": self._number}:
                    raise GuardError(error)
                case {"lost": str() as reason, "number": self._number}:
                    raise DiedError(self._in_hand, reason)
                case {"stage": str() as stage, "id": str() as id, "number": self._number, **more}:
                    self._in_hand, self.told = id, {str(key): value for key, value in more.items()}
                    progress(stage, id)
                    until = time.monotonic() + patience
                case _:
                    raise DiedError(self._in_hand, f"something else wrote to the answer pipe: {line[:80]!r}")

    def _next_reply(self, until: float) -> bytes | None:
        """Return the next reply. It is empty if the process has ended, None if no reply came before time ``until``."""
        assert self._replies is not None
        assert self._process is not None
        while b"\n" not in self._pending[-65536:]:
            left = until - time.monotonic()
            gone = self._process.poll() is not None  # asked before the last read, which then has everything
            if not connection.wait([self._replies.fileno()], 0.0 if gone else max(0.0, min(left, _LIVENESS))):
                if gone:  # a process that it started may hold the pipe open
                    return b""
                if left <= 0:
                    return None
                continue
            read = self._replies.read(65536)
            if not read:
                return b""
            self._pending += read
            if len(self._pending) > _LONGEST:
                break
        line, _, rest = self._pending.partition(b"\n")
        self._pending = rest
        return bytes(line)

    def _describe_end(self) -> str:
        """Return how the process ended, with the end of its output."""
        assert self._process is not None and self._said is not None
        try:
            code = self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            return "the process closed its answer pipe and went on"
        names = {known.value: known.name for known in signal.Signals}  # a real-time signal has none
        how = f"was killed by {names.get(-code, f'signal {-code}')}" if code < 0 else f"{ENDED} {code}"
        if code == -signal.SIGKILL:
            how += SHORT
        said = _explaining_lines([line.strip() for line in self._said.text().splitlines() if line.strip()])
        return f"the process {how}" + (f": {' | '.join(said)}" if said else "")


class _OutputTail:
    """A reader of a process's output, so that the process never blocks. It keeps the end of the output."""

    _KEPT = 2**16

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._end = pipe, b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        """Return the end of the output after the process has ended. Processes that it started may still print."""
        self._reader.join(_LIVENESS)
        return self._end.decode(errors="replace")

    def _read(self) -> None:
        with self._pipe:
            while read := self._pipe.read(2**16):
                self._end = (self._end + read)[-self._KEPT :]


def _parse_reply(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _explaining_lines(lines: list[str]) -> list[str]:
    """Return the lines that explain how a process ended: a crash or exception with its source line, else four lines."""
    frames = [index for index, line in enumerate(lines) if line.startswith('File "')]
    for index, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            current = [later for later in range(index, len(lines)) if lines[later].startswith("Current thread")]
            return [line, *(lines[frame] for frame in frames if current and frame > current[0])][:3]
    if frames and any(line.startswith("Traceback") for line in lines):
        return [next(filter(_RAISED.match, lines[frames[-1] :]), lines[-1]), lines[frames[-1]]]
    return lines[-4:]


def say_nothing(stage: str, id: str) -> None:
    """Ignore progress."""
