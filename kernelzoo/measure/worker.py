"""The process that runs kernels: kernelzoo's own, or those of one file of a user.

For races, the judge sends requests to its runner. Contract cases, fuzzing and accuracy need no judge.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from kernelzoo import definitions, inspect, measure, registry, tables
from kernelzoo.check import verifying, weak
from kernelzoo.device import ARCHITECTURES, raise_if_device_lost
from kernelzoo.errors import BackendUnavailableError, ContractError, DeviceLostError, KernelZooError
from kernelzoo.lazy import torch
from kernelzoo.measure import first_call, planning
from kernelzoo.measure.answering import RequestServer, serve
from kernelzoo.measure.measurement import FULL
from kernelzoo.measure.problems import Problem, problem_from_json
from kernelzoo.operations import declared
from kernelzoo.operations.known import signature_fields
from kernelzoo.packages import how_to_install

if TYPE_CHECKING:
    from kernelzoo.measure.runner import Runner


class OpenError(KernelZooError, RuntimeError):
    """A device can't be used."""


class Worker(RequestServer):
    """A server that runs kernels on request."""

    def __init__(self, replies: IO[str]) -> None:
        super().__init__(replies)
        self._device: Any = None
        self._runner: Runner
        self._weak: dict[str, tuple[str, ...]] = {}
        """For each operation, the wrong results that its error bounds accept."""

    def on_open(self, device: str, modules: list[str], simulated: tuple[str, str] | None = None) -> dict[str, Any]:
        """Load the user's modules, and choose the device. Returns the result of :func:`about`.

        ``simulated``: a backend and an architecture. The process then only plans for that simulated device.
        """
        if simulated:
            backend, arch = simulated
            self._simulation = inspect.simulate_device(backend, ARCHITECTURES[arch])
            try:
                self._simulation.__enter__()
            except ModuleNotFoundError as error:
                words = f"{type(error).__name__}: {error}"
                raise BackendUnavailableError(backend, words, how_to_install(backend)) from error
            self._device = torch.device("meta")
            return about("cpu")
        refused = load_modules(modules)
        self._device = open_device(device)
        from kernelzoo.measure.runner import Runner  # imports torch: only now, as a module may set how torch starts

        self._runner = Runner(self._device)
        return {**about(str(self._device)), "refused": refused}

    def on_call_runner(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a method of the runner. Returns its value, or what the implementation raised."""
        self.in_hand = True
        try:
            if call == "open_sets":
                arguments["problem"] = problem_from_json(arguments["problem"])
            return {"value": getattr(self._runner, call)(**arguments)}
        except ContractError as error:
            return {"raised": "wrong", "words": str(error), "kind": error.kind}
        except KernelZooError as error:
            if not isinstance(error, DeviceLostError):
                return {"raised": "refused", "words": str(error)}
            words = f"raised DeviceLostError: {error.reason}"
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in str(error):
                return {"raised": "refused", "words": f"{FULL}: {error}"}
            words = f"raised {type(error).__name__}: {error}"
        raise_if_device_lost(self._device, str(arguments.get("id", "")), words)
        return {"raised": "failed", "words": words}

    def on_tables(self, backends: list[str], ops: list[str]) -> dict[str, Any]:
        """Return the GPU, the launch tables that can be tuned on it, and why other backends can't be tuned."""
        card = tables.card(self._device.index) if self._device.type == "cuda" else None
        found: dict[str, Any] = {"card": asdict(card) if card else None, "declared": [], "unavailable": {}}
        for name in backends:
            try:
                backend = registry.language(name) if self._device.type != "meta" else None
            except Exception as error:  # a broken installation may raise anything on import
                found["unavailable"][name] = str(error) if isinstance(error, KernelZooError) else repr(error)
                continue
            if backend and (backend.emulator or self._device.type not in backend.devices):
                found["unavailable"][name] = f"it runs on {backend.emulator or ' and '.join(backend.devices)} here"
                continue
            found["declared"] += filter(None, (planning.declared_knobs(name, op) for op in ops))
        return found

    def on_plans(
        self, id: str, problems: list[dict[str, Any]], values: list[dict[str, int]]
    ) -> dict[str, list[list[str]]]:
        """Return each problem's plan with each table; see :func:`kernelzoo.measure.planning.hash_plans`."""
        self._report_progress("plan", id)
        return {"plans": planning.hash_plans(id, [problem_from_json(one) for one in problems], values, self._device)}

    def on_cross_check(self, problem: dict[str, Any], ids: list[str]) -> dict[str, float]:
        """Time implementations by the profiler. The profiler slows later launches, so no race may follow here."""
        from kernelzoo.measure import profiler

        chosen = [registry.implementation(id) for id in ids]
        return profiler.cross_check(problem_from_json(problem), chosen, self._device, progress=self._report_progress)

    def on_first_call(self, **request: Any) -> dict[str, Any]:
        """Return the times of first calls; see :func:`kernelzoo.measure.first_call.time_calls`."""
        try:
            return first_call.time_calls(**request, device=self._device)
        except KernelZooError as error:
            return {"outcome": "refused", "reason": str(error)}
        except Exception as error:  # any error of a kernel costs only this row
            return {"outcome": "failed", "reason": f"raised {type(error).__name__}: {error}"}

    def on_verify(
        self, id: str, problems: list[dict[str, Any]], cases: list[str], dtypes: list[str], seed: int
    ) -> dict[str, Any]:
        """Run contract cases, then the gate on each problem. ``cases`` and ``dtypes`` are filters; empty means all."""
        implementation = registry.implementation(id)
        device = self._device_for(id)
        if isinstance(device, str):
            return verifying.CheckResults(unavailable=device).document()
        if implementation.op not in self._weak:
            self._weak[implementation.op] = weak.accepted_wrong_results(implementation.operation)
        checks = verifying.checks_of(implementation, device, whole=bool(cases))
        if not registry.language(implementation.backend).emulator:
            for problem in map(problem_from_json, problems):
                admit = partial(_pass_gate, implementation, problem, device, seed)
                checks.append(verifying.Check(problem.id, problem.dtype, admit))
        found = verifying.verify(
            implementation,
            verifying.select(checks, cases, dtypes),
            device,
            whole=not cases and not dtypes,
            progress=lambda name, known: self._report_progress("check", f"{id} {name}", input=known),
        )
        return replace(found, weak=self._weak[implementation.op]).document()

    def on_fuzz(self, id: str, cases: list[str], one_by_one: bool) -> dict[str, Any]:
        """Run fuzzing cases. Returns the fields of :class:`kernelzoo.check.fuzz.running.FuzzCounts`."""
        from kernelzoo.check import fuzz
        from kernelzoo.check.fuzz import running

        torch.set_num_threads(1)  # several such processes share the processor
        implementation = registry.implementation(id)
        device = self._device_for(id)
        if isinstance(device, str):
            return {**vars(running.FuzzCounts()), "unavailable": device}
        found = running.run(
            implementation,
            [fuzz.parse_case(case, implementation.op) for case in cases],
            device,
            one_by_one=one_by_one,
            progress=lambda waiting, number: self._report_progress(f"{waiting} {number}", id),
        )
        return vars(found)

    def on_accuracy(self, op: str, dtype: str, ids: list[str], values: int, seed: int) -> dict[str, Any]:
        """Measure errors in ulp. Returns the rows of :func:`kernelzoo.check.accuracy.measure`."""
        from kernelzoo.check import accuracy

        torch.set_num_threads(1)  # several such processes share the processor
        rows, able = list[dict[str, Any]](), dict[str, Any]()
        for id in ids:
            if isinstance(place := self._device_for(id), str):
                rows.append(accuracy.Tally(id, op, dtype, unavailable=place).row())
            else:
                able[id] = place
        if able:  # all ids are of one backend, or torch's function, so one device suits all
            device, progress = next(iter(able.values())), partial(self._report_progress, "accuracy")
            rows += accuracy.measure(op, dtype, list(able), values, seed, device, progress=progress)
        return {"rows": rows}

    def on_fuzzing_limits(self, id: str) -> dict[str, Any]:
        """Return the largest fuzzing case; see :meth:`kernelzoo.measure.guard.Guard.find_fuzzing_limits`."""
        from kernelzoo.check import fuzz

        implementation = registry.implementation(id)
        unavailable = self._device_for(id)
        if isinstance(unavailable, str):
            return {"unavailable": unavailable, "elements": 0, "emulator": ""}
        emulator = registry.language(implementation.backend).emulator
        return {"unavailable": "", "elements": fuzz.max_elements(implementation), "emulator": emulator}

    def _device_for(self, id: str) -> torch.device | str:
        """Return the device an implementation runs on, or why it can't run. ``torch.softmax`` is torch's function."""
        backend, *rest = id.split("/")
        try:
            devices = registry.language(backend).devices if rest else (self._device.type,)
        except Exception as error:  # a broken installation may raise anything on import
            return str(error) if isinstance(error, KernelZooError) else f"importing {backend}: {error!r}"
        return self._device if self._device.type in devices else torch.device(devices[-1])


def open_device(device: str) -> torch.device:
    """Return the device to use. Raises OpenError, which says why it can't be used."""
    try:
        found = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if found.type == "cuda":
            found = torch.device("cuda", found.index or 0)
            torch.empty(1, device=found)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        raise OpenError(f"device {device!r} can't be used: {str(error).partition(chr(10))[0]}") from error
    if found.type not in ("cpu", "cuda"):  # on other devices a launch may return before it is done
        raise OpenError(f"device {device!r} can't be measured on; allowed: cpu, cuda, cuda:1 and so on")
    return found


def load_modules(modules: Sequence[str]) -> dict[str, str]:
    """Load files of a user. Returns why some can't be loaded, by path."""
    refused = dict[str, str]()
    for path in modules:
        try:
            definitions.load_file_locating_errors(path)
        except KernelZooError as error:
            refused[path] = str(error)
    return refused


def about(device: str) -> dict[str, Any]:
    """Return a description of the device, and of everything that can be measured on it."""
    return {
        "device": device,
        "device_name": measure.device_name(device),
        "gpu": measure.gpu_uuid(device),
        "versions": measure.versions(device),
        "summaries": {i.id: i.summary for i in registry.implementations()},
        "operations": [signature_fields(op) for op in declared.values()],
    }


def _pass_gate(
    implementation: registry.Implementation,
    problem: Problem,
    device: torch.device,
    seed: int,
    report_input: Callable[[dict[str, Any]], None],
) -> None:
    random.seed(seed)  # for the inputs
    sets = measure.TensorSets(problem, 3, device)
    x = sets[0][0][0]
    report_input({"dtype": problem.dtype, "shape": tuple(x.shape), "strides": x.stride(), "dim": problem.dim})
    runner = measure.LocalRunner(device)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        runner.open_sets(problem, sets, "device")
        measure.Gate(sets, seed).admit(measure.Entrant(implementation, runner))


def _keep_freed_memory() -> None:
    """Make glibc keep freed memory. By default it returns some to the system, and page faults would be timed."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its maximum
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


if __name__ == "__main__":
    _keep_freed_memory()
    serve(Worker, *map(int, sys.argv[1:]))
