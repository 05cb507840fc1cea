"""Measuring behind a guard: in a process that may crash, hang or lose its device, which costs one row and no other.

Nothing that the process does is trusted: it may print without end, answer with nonsense, close what it answers through,
leave processes behind that hold it open, or not even end when it is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self

from kernelzoo.errors import CacheWarning, KernelZooError
from kernelzoo.files import printable
from kernelzoo.measure import record
from kernelzoo.measure.problems import Problem

_IMPORTING = 180.0
"""Seconds that a start may take, however short the patience with kernels: it loads torch, from a cold disk perhaps."""

_WORKER = [sys.executable, "-m", "kernelzoo.measure.worker"]

_ENDING = 10.0
"""Seconds for a process to be gone that was killed, or that answers no more: one that the driver holds may never be."""

_LIVENESS = 1.0
"""Seconds between looks whether the process is there at all; its answers are waited for without looking."""

_LONGEST = 64 * 2**20
"""Bytes of one answer; the largest race's is a thousandth of that."""
_DEATHS = 4
"""Processes that one implementation may break in one batch of cases: each takes seconds to replace."""

Json = dict[str, Any]
Progress = Callable[[str, str], None]


class GuardError(KernelZooError, RuntimeError):
    """The process that measures can't start, or refuses what it is asked for."""


class _DiedError(Exception):
    """The process died or was killed; ``id`` is the implementation it had in hand, "" if none."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id, self.reason = id, reason


@dataclass(frozen=True)
class About:
    """What the measuring process found: where it measures, and what there is to measure."""

    device: str
    device_name: str
    versions: dict[str, str]
    summaries: dict[str, str]
    """The first line of each known implementation's docstring, by id; the modules' own among them."""


class Guard:
    """Lets implementations run in a process of its own, and replaces that process when one of them breaks it.

    ``modules`` are paths of Python files that register implementations: they run there and never here. ``patience`` is
    the seconds that one step (compile and check, or one sample) may take before it counts as hung. Use it as a context
    manager. Raises GuardError if the process can't start.
    """

    def __init__(self, device: str = "", modules: Sequence[str] = (), *, patience: float = 180.0) -> None:
        self._device, self._modules, self._patience = device, [os.path.abspath(module) for module in modules], patience
        self._ceilings: list[float] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: IO[bytes] | None = None
        self._lifeline: int | None = None
        self._pending = bytearray()
        self._said: _Tail | None = None
        self._checker: Guard | None = None
        self.about = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and the one of the second clock."""
        self._stop()
        if self._checker is not None:
            self._checker.close()

    def ceilings(self) -> list[float] | None:
        """Copy and read bandwidth in bytes per second and the launch floor in seconds, measured once on this device;
        None on the host."""
        if self._ceilings is None:
            try:
                self._ceilings = self._ask({"do": "ceilings"}, _quiet, at_least=_IMPORTING)["ceilings"]
            except _DiedError as error:
                self._restart()
                raise GuardError(f"the ceilings could not be measured: {error.reason}") from None
        return self._ceilings

    def race(
        self,
        problem: Problem,
        ids: Sequence[str],
        *,
        rounds: int = 15,
        cache: str = "cold",
        cross_check: bool = False,
        label: str = "",
        tables: Mapping[str, Mapping[str, int]] | None = None,
        waive: Sequence[str] = (),
        progress: Progress = lambda stage, id: None,
    ) -> tuple[list[Json], list[Json]]:
        """Measure implementations on one problem: the entries of a results file, and the failures.

        An id ``backend/op/variant@label`` is a lane of its own, bound with the knobs that ``tables`` has for it. Ids in
        ``waive`` are timed if they are right on ordinary values, as :func:`kernelzoo.measure.race` says.

        An implementation that kills the process, hangs, or breaks its device is a failure, and the others are measured
        again without it, in a new process. With ``cross_check``, cold results of a GPU are timed by the profiler's
        clock too.
        """
        left, lost = list(ids), list[Json]()
        lanes = {id: dict(values) for id, values in (tables or {}).items()}
        while left:
            request = {"do": "race", "problem": _shape(problem), "ids": left, "rounds": rounds, "cache": cache}
            try:
                done = self._ask({**request, "label": label, "tables": lanes, "waive": list(waive)}, progress)
                if cross_check and cache == "cold":
                    timed = {e["extra_info"]["id"]: e for e in done["entries"] if e["extra_info"]["clock"] == "device"}
                    for id, seconds in self.cross_check(problem, list(timed), progress).items() if timed else ():
                        record.cross_checked(timed[id], seconds)
                return done["entries"], lost + done["failed"]
            except _DiedError as error:
                self._restart()
                # Nobody in hand: it died between them, so that none of them can be blamed, and none has a result.
                blamed = [error.id] if error.id in left else left
                lost += [record.failure(problem, id, "failed", error.reason) for id in blamed]
                left = [id for id in left if id not in blamed]
        return [], lost

    def tables(self, backends: Sequence[str], ops: Sequence[str]) -> Json:
        """What can be tuned here: ``card`` (None without a GPU), ``declared``, and ``unavailable`` by backend."""
        return self._answered({"do": "tables", "backends": list(backends), "ops": list(ops)})

    def plans(self, id: str, problems: Sequence[Problem], values: Sequence[Mapping[str, int]]) -> list[list[str]]:
        """What tables make of problems; see :func:`kernelzoo.measure.planning.plans`."""
        request = {"do": "plans", "id": id, "problems": [_shape(p) for p in problems]}
        found: list[list[str]] = self._answered({**request, "values": [dict(one) for one in values]})["plans"]
        return found

    def _answered(self, request: Json) -> Json:
        """The answer to a request that runs no kernel. Raises GuardError if the process dies over it."""
        try:
            return self._ask(request, _quiet, at_least=_IMPORTING)
        except _DiedError as error:
            self._restart()
            raise GuardError(f"{request['do']} could not be had: {error.reason}") from None

    def cross_check(self, problem: Problem, ids: Sequence[str], progress: Progress) -> dict[str, float]:
        """Seconds per launch by the profiler's clock, by id; those that it tells nothing of are left out.

        In a second process, since a profiler slows down the one that it has been in. A second opinion that can't be
        had is none, and costs the first nothing.
        """
        try:
            if self._checker is None:
                self._checker = Guard(self._device, self._modules, patience=self._patience)
            request = {"do": "cross_check", "problem": _shape(problem), "ids": list(ids)}
            told: dict[str, float] = self._checker._ask(request, progress)
        except (_DiedError, GuardError):
            if self._checker is not None:
                self._checker.close()
                self._checker = None
            return {}
        return told

    def verify(self, id: str, problems: Sequence[Problem], progress: Progress = lambda stage, id: None) -> Json:
        """Check one implementation against the contract: ``passed``, ``refused`` and ``no_room`` (counts of cases; the
        last are those that this machine's memory can't hold), ``wrong`` (a list of findings), ``unavailable`` (why it
        can't run here, or "")."""
        try:
            return self._ask({"do": "verify", "id": id, "problems": [_shape(p) for p in problems]}, progress)
        except _DiedError as error:
            self._restart()
            wrong = [f"{error.id or id}: {error.reason}"]
            return {"passed": 0, "refused": 0, "no_room": 0, "wrong": wrong, "unavailable": ""}

    def largest(self, id: str) -> Json:
        """What fuzzing must know of an implementation: ``unavailable`` (why it can't run here, or ""), ``elements`` of
        the largest case to make up for it, ``emulator`` (what runs it in place of a device, or "")."""
        try:
            return self._ask({"do": "largest", "id": id}, _quiet, at_least=_IMPORTING)
        except _DiedError as error:
            self._restart()
            return {"unavailable": f"importing its backend: {error.reason}", "elements": 0, "emulator": ""}

    def fuzz(self, id: str, cases: Sequence[str]) -> Json:
        """Run cases of fuzzing through one implementation; see :class:`kernelzoo.check.fuzz.running.Found`.

        A case that kills the process, or hangs, is one of those that are ``wrong``, and the others are run without it:
        up to so many of them (_DEATHS), after which the rest is left.
        """
        total: Json = {"wrong": [], "unavailable": ""}
        deaths = 0
        spans = [(0, len(cases), "")]  # first, one past the last, and of suspects, which run one by one, of what
        while spans:
            start, stop, suspicion = spans.pop(0)
            at = [0, 0]

            def told(stage: str, id: str, at: list[int] = at) -> None:
                at[:] = map(int, stage.split())

            request = {"do": "fuzz", "id": id, "cases": list(cases[start:stop]), "one_by_one": bool(suspicion)}
            try:
                found = self._ask(request, told) if start < stop else {}
            except _DiedError as error:
                self._restart()
                waiting, number = (start + place for place in at)
                # Nothing was told of what came before: that is run again.
                if waiting == number:
                    total["wrong"].append([number, error.reason])
                    again = [(start, number, suspicion), (number + 1, stop, suspicion)]
                else:
                    again = [(start, waiting, ""), (waiting, number + 1, error.reason), (number + 1, stop, "")]
                spans = again + spans
                deaths += 1
                if deaths == _DEATHS:
                    break
                continue
            if suspicion and not found["wrong"]:
                found["wrong"].append([stop - 1 - start, f"{suspicion}; not so when run one by one"])
            for name, value in found.items():
                if name == "wrong":
                    total["wrong"] += [[start + number, words] for number, words in value]
                elif name == "unavailable":
                    total[name] = total[name] or value
                else:
                    total[name] = total.get(name, 0) + value
            if total["unavailable"]:
                break
        return total

    def accuracy(self, op: str, dtype: str, ids: Sequence[str], values: int, seed: int) -> list[Json]:
        """Rows of accuracy for implementations of one operation and dtype; see
        :func:`kernelzoo.check.accuracy.measure`.

        An implementation that kills the process or hangs has a row that says so in ``failed``, and the others are
        measured again without it.
        """
        left, lost = list(ids), list[Json]()
        request = {"do": "accuracy", "op": op, "dtype": dtype, "values": values, "seed": seed}
        while left:
            try:
                return [*self._ask({**request, "ids": left}, _quiet)["rows"], *lost]
            except _DiedError as error:
                self._restart()
                blamed = [error.id] if error.id in left else left
                lost += [{"id": id, "op": op, "dtype": dtype, "failed": error.reason} for id in blamed]
                left = [id for id in left if id not in blamed]
        return lost

    def _start(self) -> About:
        read, write = os.pipe()
        alive, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            [*_WORKER, str(write), str(alive)],
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
            done = self._ask(opening, _quiet, at_least=_IMPORTING)
        except _DiedError as error:
            self._stop()
            raise GuardError(f"the measuring process did not start: {error.reason}") from None
        except GuardError:
            self._stop()
            raise
        summaries = {i["id"]: i["summary"] for i in done["implementations"]}
        return About(done["device"], done["device_name"], done["versions"], summaries)

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

    def _ask(self, request: Json, progress: Progress, *, at_least: float = 0.0) -> Json:
        """Send a request and wait for what is done, each step for the patience or the seconds given, if that is more.

        Raises _DiedError, or GuardError for a refusal.
        """
        assert self._process is not None and self._process.stdin is not None
        in_hand = stage = ""
        patience = max(self._patience, at_least)
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            raise _DiedError("", self._last_words()) from None
        while True:
            line = self._line(patience)
            if line is None:
                where = f" in {stage} of {in_hand}" if in_hand else ""
                raise _DiedError(in_hand, f"hung{where}: no sign of life for {patience:g} s")
            if not line:
                raise _DiedError(in_hand, self._last_words())
            match _parsed(line):
                case {"done": dict() as done}:
                    return done
                case {"error": str() as error}:
                    raise GuardError(error)
                case {"lost": str() as id, "reason": str() as reason}:
                    raise _DiedError(id, reason)
                case {"warning": str() as words}:
                    warnings.warn(printable(words), CacheWarning, stacklevel=2)
                case {"stage": str() as stage, "id": str() as in_hand}:
                    progress(stage, in_hand)
                case _:
                    raise _DiedError(in_hand, f"something else writes where the process answers: {line[:80]!r}")

    def _line(self, patience: float) -> bytes | None:
        """The next reply; empty if the process is gone, None if it says nothing for so many seconds."""
        assert self._replies is not None
        assert self._process is not None
        deadline = time.monotonic() + patience
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\n" not in self._pending[-65536:]:
                left = deadline - time.monotonic()
                gone = self._process.poll() is not None  # before the last look: what it said before it went is there
                if not selector.select(0.0 if gone else max(0.0, min(left, _LIVENESS))):
                    if gone:  # though what it left behind may hold the pipe open
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
    """Reads what a process prints, so that it never waits for a reader, and keeps the end of it."""

    _KEPT = 2**16

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._end = pipe, b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        """What was printed last, once the process has ended; what it left behind may go on printing."""
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
    """Of what a process printed before it ended, what tells why: of a crash or an exception, what it was, and where;
    else the last lines."""
    frames = [index for index, line in enumerate(lines) if line.startswith('File "')]
    for index, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            current = [later for later in range(index, len(lines)) if lines[later].startswith("Current thread")]
            return [line, *(lines[frame] for frame in frames if current and frame > current[0])][:3]
    if frames and any(line.startswith("Traceback") for line in lines):
        return [lines[-1], lines[frames[-1]]]
    return lines[-4:]


def _shape(problem: Problem) -> Json:
    return {"op": problem.op, "shape": list(problem.shape), "dtype": problem.dtype, "dim": problem.dim}


def _quiet(stage: str, id: str) -> None:
    """Progress that nobody watches."""
