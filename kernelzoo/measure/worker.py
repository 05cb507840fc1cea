"""The measuring process that runs implementations, started by :mod:`kernelzoo.measure.guard`.

Requests are lines of JSON on standard input. Replies are lines of JSON on the given file descriptor, with the request's
number. Standard output and error of a kernel go to the guard.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import queue
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from kernelzoo import definitions, measure, registry, tables
from kernelzoo.check import verifying, weak
from kernelzoo.errors import CacheWarning, DeviceLostError, KernelZooError
from kernelzoo.measure import energy as energies
from kernelzoo.measure import planning, process_state, record, trusted
from kernelzoo.measure.gate import Gate
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import declared
from kernelzoo.operations.known import described

if TYPE_CHECKING:
    import torch


def main(descriptor: int, lifeline: int) -> None:
    _end_with(lifeline)
    with contextlib.suppress(OSError):  # if memory runs out, Linux ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable()
    worker = Worker(os.fdopen(descriptor, "w", buffering=1))
    os.register_at_fork(after_in_child=partial(os.close, descriptor))  # a forked child must not reply
    warnings.showwarning = worker.warn
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        worker.number, worker.in_hand = request.pop("number"), False
        handle: Callable[..., dict[str, Any]] = getattr(worker, f"on_{request.pop('do')}")
        try:
            reply: dict[str, Any] = {"done": handle(**request)}
        except KernelZooError as error:
            # An error of the running implementation is its failure, not a refusal of the request.
            words = error.reason if isinstance(error, DeviceLostError) else f"raised {type(error).__name__}: {error}"
            reply = {"lost": words} if worker.in_hand else {"error": str(error)}
        worker.say(**reply)


def _end_with(lifeline: int) -> None:
    """End this process and its children when the guard ends, whatever a kernel does. A second process waits for that: a
    kernel could hold Python's lock, or close a thread's files."""
    if child := os.fork():
        os.waitpid(child, 0)
        os.close(lifeline)
        return
    if os.fork() == 0:  # reparented, so that a kernel that waits for its children never meets it
        with contextlib.suppress(BaseException):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, lifeline)
            os.closerange(lifeline + 1, 4096)
            os.read(lifeline, 1)
            os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _read(requests: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


class OpenError(KernelZooError, RuntimeError):
    """A device can't be used."""


class Worker:
    """Answers requests, with a method for each."""

    def __init__(self, replies: IO[str]) -> None:
        self._replies, self._process = replies, os.getpid()
        self.number = 0
        """The request's number, which its replies repeat."""
        self.in_hand = False
        """Whether this request is running an implementation."""
        self._device: Any = None
        self._ceilings: measure.Ceilings | None = None
        self._weak: dict[str, tuple[str, ...]] = {}
        """Wrong results that the bounds of an operation accept."""

    def on_open(self, device: str, modules: list[str], ceilings: list[float] | None) -> dict[str, Any]:
        """Load the user's modules and choose the device; reply with everything that can be measured."""
        import torch

        trusted.take()
        before = process_state.Watch()
        for path in modules:
            definitions.load_reported(path)
            if changed := before.changes(config=False):
                raise OpenError(f"{path}: {'; '.join(changed)}; a file of kernels must not change the process")
        try:
            self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            if self._device.type == "cuda":
                self._device = torch.device("cuda", self._device.index or 0)
                torch.empty(1, device=self._device)
        except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
            raise OpenError(f"device {device!r} can't be used: {str(error).partition(chr(10))[0]}") from error
        if self._device.type not in ("cpu", "cuda"):  # elsewhere a launch may return before it is done
            raise OpenError(f"device {device!r} can't be measured on; allowed: cpu, cuda, cuda:1 and so on")
        if ceilings is not None:
            self._ceilings = measure.Ceilings(*ceilings)
        return {
            "device": str(self._device),
            "device_name": measure.device_name(str(self._device)),
            "gpu": measure.gpu_uuid(str(self._device)),
            "versions": measure.versions(str(self._device)),
            "implementations": [{"id": i.id, "summary": i.summary} for i in registry.implementations()],
            "operations": [described(op) for op in declared.values()],
        }

    def on_confirm(self) -> dict[str, Any]:
        """An empty reply, which confirms that the previous request is finished."""
        return {}

    def on_unmetered(self) -> dict[str, Any]:
        """Why the energy of a launch can't be measured on this device, or ""."""
        try:
            energies.meter(self._device)
        except energies.EnergyError as error:
            return {"reason": str(error)}
        return {"reason": ""}

    def on_ceilings(self) -> dict[str, Any]:
        """Measure the device's ceilings, if it is a GPU."""
        if self._device.type != "cuda":
            return {"ceilings": None}
        self._ceilings = measure.ceilings(self._device)
        return {"ceilings": [self._ceilings.copy, self._ceilings.read, self._ceilings.floor]}

    def on_race(
        self,
        problem: dict[str, Any],
        ids: list[str],
        rounds: int,
        cache: measure.Cache,
        timed: measure.Timed,
        energy: bool,
        label: str,
        tables: dict[str, dict[str, int]],
        waive: list[str],
    ) -> dict[str, Any]:
        """Measure one problem; reply with entries of a results file. An id in ``tables`` is bound with that table."""
        measured = measure.race(
            _problem(problem),
            [planning.lane(id, tables[id]) if id in tables else registry.implementation(id) for id in ids],
            self._device,
            rounds=rounds,
            until_clear=not tables,  # tuning combines races of equal rounds
            cache=cache,
            timed=timed,
            energy=energy,
            ceilings=self._ceilings,
            waive=waive,
            progress=self._tell,
            turned=lambda id, sample, launches: self._tell("time", id, turn=sample and [sample, launches]),
        )
        device, ceilings = str(self._device), None if timed == "call" else self._ceilings
        return {
            "entries": [record.entry(m, device, ceilings, label) for m in measured.values() if m.samples],
            "failed": [failure for m in measured.values() if (failure := record.failure_of(m))],
        }

    def on_tables(self, backends: list[str], ops: list[str]) -> dict[str, Any]:
        """The launch tables to tune on this device, the card, and why other backends can't be tuned."""
        card = tables.card(self._device.index) if self._device.type == "cuda" else None
        found: dict[str, Any] = {"card": asdict(card) if card else None, "declared": [], "unavailable": {}}
        for name in backends:
            try:
                backend = registry.language(name)
            except Exception as error:  # a broken installation may raise anything on import
                found["unavailable"][name] = str(error) if isinstance(error, KernelZooError) else repr(error)
                continue
            if backend.emulator or self._device.type not in backend.devices:
                found["unavailable"][name] = f"it runs on {backend.emulator or ' and '.join(backend.devices)} here"
                continue
            found["declared"] += filter(None, (planning.declarations(name, op) for op in ops))
        return found

    def on_plans(
        self, id: str, problems: list[dict[str, Any]], values: list[dict[str, int]]
    ) -> dict[str, list[list[str]]]:
        """The plans of problems by several tables; see :func:`kernelzoo.measure.planning.plans`."""
        self._tell("plan", id)
        return {"plans": planning.plans(id, [_problem(problem) for problem in problems], values, self._device)}

    def on_cross_check(self, problem: dict[str, Any], ids: list[str]) -> dict[str, float]:
        """Time by the profiler's clock. This process must not run a race afterwards."""
        chosen = [registry.implementation(id) for id in ids]
        return measure.cross_check(_problem(problem), chosen, self._device, progress=self._tell)

    def on_verify(
        self, id: str, problems: list[dict[str, Any]], cases: list[str], dtypes: list[str], seed: int
    ) -> dict[str, Any]:
        """Run the contract's cases, then the gate at the problems' shapes; see
        :class:`kernelzoo.check.verifying.Found`. ``cases`` and ``dtypes`` select some."""
        implementation = registry.implementation(id)
        device = self._place(id)
        if isinstance(device, str):
            return verifying.Found(unavailable=device).document()
        if implementation.op not in self._weak:
            self._weak[implementation.op] = weak.weak(implementation.operation)
        checks = verifying.checks(implementation, device, whole=bool(cases))
        if not registry.language(implementation.backend).emulator:
            for problem in map(_problem, problems):
                admit = partial(_admit, implementation, problem, device, seed)
                checks.append(verifying.Check(problem.id, problem.dtype, admit))
        found = verifying.verify(
            implementation,
            verifying.chosen(checks, cases, dtypes),
            device,
            whole=not cases and not dtypes,
            progress=lambda name, known: self._tell("check", f"{id} {name}", input=known),
        )
        return replace(found, weak=self._weak[implementation.op]).document()

    def on_fuzz(self, id: str, cases: list[str], one_by_one: bool) -> dict[str, Any]:
        """Run fuzzing cases; reply with the fields of :class:`kernelzoo.check.fuzz.running.Found`."""
        import torch

        from kernelzoo.check import fuzz
        from kernelzoo.check.fuzz import running

        torch.set_num_threads(1)  # several such processes share the processor
        implementation = registry.implementation(id)
        device = self._place(id)
        if isinstance(device, str):
            return {**vars(running.Found()), "unavailable": device}
        found = running.run(
            implementation,
            [fuzz.parse(case, implementation.op) for case in cases],
            device,
            one_by_one=one_by_one,
            progress=lambda waiting, number: self._tell(f"{waiting} {number}", id),
        )
        return vars(found)

    def on_accuracy(self, op: str, dtype: str, ids: list[str], values: int, seed: int) -> dict[str, Any]:
        """Errors in ulp: the rows of :func:`kernelzoo.check.accuracy.measure`."""
        import torch

        from kernelzoo.check import accuracy

        torch.set_num_threads(1)  # several such processes share the processor
        # All implementations of a request are of one backend, or torch's function: one device for all.
        places = {id: self._place(id) for id in ids}
        device = next((place for place in places.values() if not isinstance(place, str)), None)
        rows = [
            accuracy.Tally(id, op, dtype, unavailable=place).row()
            for id, place in places.items()
            if isinstance(place, str)
        ]
        able = [id for id, place in places.items() if not isinstance(place, str)]
        if device is not None:
            rows += accuracy.measure(
                op, dtype, able, values, seed, device, progress=lambda id: self._tell("accuracy", id)
            )
        return {"rows": rows}

    def on_largest(self, id: str) -> dict[str, Any]:
        """The elements of the largest case for an implementation, and the emulator that runs it, if any."""
        from kernelzoo.check import fuzz

        implementation = registry.implementation(id)
        unavailable = self._place(id)
        if isinstance(unavailable, str):
            return {"unavailable": unavailable, "elements": 0, "emulator": ""}
        emulator = registry.language(implementation.backend).emulator
        return {"unavailable": "", "elements": fuzz.largest(implementation), "emulator": emulator}

    def _place(self, id: str) -> torch.device | str:
        """The device for an implementation or torch's function, or why it can't run here."""
        import torch

        backend, *rest = id.split("/")
        try:
            devices = registry.language(backend).devices if rest else (self._device.type,)
        except Exception as error:  # a broken installation may raise anything on import
            return str(error) if isinstance(error, KernelZooError) else f"importing {backend}: {error!r}"
        return self._device if self._device.type in devices else torch.device(devices[-1])

    def warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Pass a warning for the user on; print any other."""
        if issubclass(category, CacheWarning):
            self.say(warning=str(message))
        else:
            print(f"{filename}:{lineno}: {category.__name__}: {message}", file=file or sys.stderr)

    def _tell(self, stage: str, id: str, **more: Any) -> None:
        self.in_hand = True
        self.say(stage=stage, id=id, **more)

    def say(self, **reply: Any) -> None:
        """Send a reply. A forked process, perhaps from C, ends here."""
        if os.getpid() != self._process:
            os._exit(1)
        print(json.dumps({**reply, "number": self.number}), file=self._replies, flush=True)


def _problem(given: dict[str, Any]) -> Problem:
    sizes, scalars = (tuple((str(name), value) for name, value in given[key]) for key in ("sizes", "scalars"))
    return Problem(given["op"], tuple(given["shape"]), given["dtype"], given["dim"], sizes, scalars)


def _admit(
    implementation: registry.Implementation,
    problem: Problem,
    device: torch.device,
    seed: int,
    about: Callable[[dict[str, Any]], None],
) -> None:
    random.seed(seed)  # for the inputs
    sets = measure.draw_sets(problem, device, count=2)
    x = sets[0][0][0]
    about({"dtype": problem.dtype, "shape": tuple(x.shape), "strides": x.stride(), "dim": problem.dim})
    gate = Gate(problem, sets, seed=seed)
    with process_state.Watch().left_alone(implementation.id):
        gate.admit(implementation)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
