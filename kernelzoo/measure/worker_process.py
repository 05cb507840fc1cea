"""The measuring process from the outside: it is started, asked, found dead or hung, and started again.

Nothing that the process does is trusted. It may print without end, answer with nonsense, close the pipe of its answers,
leave processes behind that hold the pipe open, or not end when it is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Self

from kernelzoo import children, operations
from kernelzoo.errors import CacheWarning, KernelZooError, Pickled
from kernelzoo.files import printable
from kernelzoo.measure.gpus import Gpu

IMPORTING = 180.0
"""Seconds that a start may take, however short the patience with kernels: torch may be loaded from a cold disk."""

_WORKER = [sys.executable, "-P", "-m", "kernelzoo.measure.worker"]

_ENDING = 10.0
"""Seconds to wait for the end of a process that was killed or answers no more; the driver may hold it for ever."""

_LIVENESS = 1.0
"""Seconds between checks whether the process still exists."""

_LONGEST = 64 * 2**20
"""Bytes of one answer at most; the largest race takes a thousandth of that."""

Json = dict[str, Any]
Progress = Callable[[str, str], None]
Judge = Callable[[Json], str]
"""What of an answer is not what was asked for, in words; or ""."""


class GuardError(KernelZooError, RuntimeError):
    """The measuring process can't start, or refuses a request."""


class DiedError(Pickled, Exception):
    """The process died or was killed; ``id`` is the implementation that it was running, or ""."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id, self.reason = id, reason


@dataclass(frozen=True)
class About:
    """What the measuring process found: the device, and the implementations that it can measure."""

    device: str
    device_name: str
    versions: dict[str, str]
    summaries: dict[str, str]
    """The first line of each implementation's docstring, by id; with those of the user's modules."""
    gpu: Json | None = None
    """``index`` and ``uuid`` of the GPU, which every result names, and of another machine its ``host``; None on the
    host."""
    host: Json = field(default_factory=dict)
    """What is recorded of another machine: ``machine``, as the head of a results file has it."""


class WorkerProcess:
    """A process of :mod:`kernelzoo.measure.worker` that answers one request at a time.

    Use it as a context manager. With a ``gpu``, the process and those that replace it see no other GPU. Raises
    GuardError if the process can't start.
    """

    def __init__(
        self, device: str = "", modules: Sequence[str] = (), *, patience: float = 180.0, gpu: Gpu | None = None
    ) -> None:
        self._device = device or ("cuda" if gpu else "")  # a GPU that can't be used is no reason to take the host
        self._modules, self._patience = [os.path.abspath(module) for module in modules], patience
        self._gpu, self._closed = gpu, False
        self._ceilings: list[float] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: IO[bytes] | None = None
        self._lifeline: int | None = None
        self._pending = bytearray()
        self._said: _Tail | None = None
        self._number, self._in_hand = 0, ""
        self._told: Json = {}
        """What came with the last word about a stage."""
        self.about = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process, for good: a thread that still asks it something gets no new one."""
        self._closed = True
        self._stop()

    def _start(self) -> About:
        if self._closed:
            raise GuardError("the measuring process was ended")
        read, write = os.pipe()
        alive, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            [*_WORKER, str(write), str(alive)],
            env=children.environment() | ({"CUDA_VISIBLE_DEVICES": self._gpu.visible} if self._gpu else {}),
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
        self._said = _Tail(self._process.stdout)
        opening = {"do": "open", "device": self._device, "modules": self._modules, "ceilings": self._ceilings}
        try:
            done = self._ask(opening, quiet, at_least=IMPORTING)
        except DiedError as error:
            self._stop()
            raise GuardError(f"the measuring process did not start: {error.reason}") from None
        except GuardError:
            self._stop()
            raise
        for said in done.get("operations", ()):
            operations.known.learn(said)
        summaries = {i["id"]: i["summary"] for i in done["implementations"]}
        return About(done["device"], done["device_name"], done["versions"], summaries, self._which(done))

    def _which(self, done: Json) -> Json | None:
        uuid = done.get("gpu")
        if uuid is None:
            return None
        return {"index": self._gpu.index if self._gpu else int(done["device"].partition(":")[2] or 0), "uuid": uuid}

    def _restart(self) -> None:
        self._stop()
        self._start()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING)
            for pipe in (process.stdin, self._replies):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None

    def _ask(self, request: Json, progress: Progress, *, at_least: float = 0.0, judge: Judge = lambda done: "") -> Json:
        """Send a request and wait for its answer. Each step may take the patience, or ``at_least`` if that is longer.

        Raises DiedError, or GuardError for a refusal.
        """
        patience = max(self._patience, at_least)
        self._in_hand = ""
        done = self._answer(request, progress, patience)
        if words := judge(done):
            raise DiedError(self._in_hand, f"the answer is not to what was asked: {words}")
        # An answer that another gave in place of the process is followed by the process's own: this one is not next.
        self._answer({"do": "confirm"}, quiet, patience)
        return done

    def _answer(self, request: Json, progress: Progress, patience: float) -> Json:
        """The answer to a request, whose number each reply bears: no other process knows it, and none twice."""
        assert self._process is not None and self._process.stdin is not None
        self._number, stage = secrets.randbits(63), ""
        try:
            self._process.stdin.write(json.dumps({**request, "number": self._number}).encode() + b"\n")
        except OSError:
            raise DiedError(self._in_hand, self._last_words()) from None
        while True:
            line = self._line(patience)
            if line is None:
                where = f" in {stage} of {self._in_hand}" if stage else ""
                raise DiedError(self._in_hand, f"hung{where}: no sign of life for {patience:g} s")
            if not line:
                raise DiedError(self._in_hand, self._last_words())
            match _parsed(line):
                case {"warning": str() as words}:  # of any thread, and at any time
                    warnings.warn(printable(words), CacheWarning, stacklevel=2)
                case {"done": dict() as done, "number": self._number}:
                    return done
                case {"error": str() as error, "number": self._number}:
                    raise GuardError(error)
                case {"lost": str() as reason, "number": self._number}:
                    raise DiedError(self._in_hand, reason)
                case {"stage": str() as stage, "id": str() as id, "number": self._number, **more}:
                    self._in_hand, self._told = id, {str(key): value for key, value in more.items()}
                    progress(stage, id)
                case _:
                    raise DiedError(self._in_hand, f"something else writes where the process answers: {line[:80]!r}")

    def _line(self, patience: float) -> bytes | None:
        """The next reply; empty if the process has ended, None if it says nothing for so many seconds."""
        assert self._replies is not None
        assert self._process is not None
        deadline = time.monotonic() + patience
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\n" not in self._pending[-65536:]:
                left = deadline - time.monotonic()
                gone = self._process.poll() is not None  # asked before the last read, which then has all that it said
                if not selector.select(0.0 if gone else max(0.0, min(left, _LIVENESS))):
                    if gone:  # though a process that it started may hold the pipe open
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

    def _last_words(self) -> str:
        """How the process ended, and the end of what it printed."""
        assert self._process is not None and self._said is not None
        try:
            code = self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            return "the process closed what it answers through, and went on"
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with status {code}"
        if code == -signal.SIGKILL:
            how += ", most often by the system for want of memory"
        said = _told([line.strip() for line in self._said.text().splitlines() if line.strip()])
        return f"the process {how}" + (f": {' | '.join(said)}" if said else "")


class _Tail:
    """Reads what a process prints, so that the process never blocks, and keeps the end of it."""

    _KEPT = 2**16

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._end = pipe, b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        """What was printed last, once the process has ended; processes that it started may still print."""
        self._reader.join(_LIVENESS)
        return self._end.decode(errors="replace")

    def _read(self) -> None:
        with self._pipe:
            while read := self._pipe.read(2**16):
                self._end = (self._end + read)[-self._KEPT :]


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _told(lines: list[str]) -> list[str]:
    """The lines that say why a process ended: of a crash or an exception, what it was and where; else the last
    lines."""
    frames = [index for index, line in enumerate(lines) if line.startswith('File "')]
    for index, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            current = [later for later in range(index, len(lines)) if lines[later].startswith("Current thread")]
            return [line, *(lines[frame] for frame in frames if current and frame > current[0])][:3]
    if frames and any(line.startswith("Traceback") for line in lines):
        return [lines[-1], lines[frames[-1]]]
    return lines[-4:]


def quiet(stage: str, id: str) -> None:
    """Progress that is not shown."""
