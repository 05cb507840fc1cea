"""The judge's process: it has the inputs, the references and the clock, and sends requests to runners' processes.

Kernelzoo's kernels and torch's share one runner. Each file of a user has a separate runner. The judge also loads files
that declare operations, because an operation defines which results are right.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import partialmethod
from pathlib import Path
from typing import IO, Any

from kernelzoo import definitions, measure, operations, registry
from kernelzoo.errors import DeviceLostError
from kernelzoo.lazy import torch
from kernelzoo.measure import record, schema
from kernelzoo.measure.answering import RequestServer, serve
from kernelzoo.measure.judge.apart import RunnerProcess, adopt_orphans
from kernelzoo.measure.measurement import FULL
from kernelzoo.measure.problems import problem_from_json
from kernelzoo.measure.worker import about, load_modules, open_device
from kernelzoo.measure.worker_process import DiedError

_TRIES = 2
"""The most attempts at a race if runners exit while they run no implementation."""

BESIDE = "the operation is declared in the kernel's file"
"""The flag of a kernel whose file the judge had to load."""


class Judge(RequestServer):
    """The judge's server, which answers requests by asking runners."""

    def __init__(self, replies: IO[str]) -> None:
        super().__init__(replies)
        self._device: Any = None
        self._ceilings: measure.Ceilings | None = None
        self._runners: dict[str, RunnerProcess] = {}
        """The runners, by their file of kernels; "" is the runner of kernelzoo's own kernels."""
        self._files: dict[str, str] = {}
        """For each implementation's id, the user's file that registers it."""
        self._beside: set[str] = set()
        """Files of kernels that also declare an operation."""

    def on_open(
        self,
        device: str,
        modules: list[str],
        ceilings: list[float] | None,
        patience: float,
        needs: dict[str, list[str]] | None = None,
        waiting: str | None = None,
    ) -> dict[str, Any]:
        """Start a runner for kernelzoo's kernels, and one for each file of kernels.

        ``needs``: for each file of kernels, the files of operations that it needs; None means that each file needs all
        of them. ``waiting``: the runners' ``OMP_WAIT_POLICY``.
        """
        meanings = [path for path in modules if declares_operations(path)]
        alone = {path for path in meanings if not path.endswith(".py") or definitions.is_problem(path)}
        files = [path for path in modules if path not in alone]
        given = {"": [path for path in meanings if path not in files]}  # kernelzoo's runner loads no file of kernels
        for file in files:
            needed = meanings if needs is None else needs.get(file, [])
            given[file] = [path for path in modules if path in needed or path == file]
        starting = ThreadPoolExecutor(1).submit(RunnerProcess.start_all, device, given, patience, waiting)
        self._device = open_device(device)
        refused = load_modules(meanings)
        self._runners, lost = starting.result()
        refused |= lost
        self._beside = {path for path in meanings if path in files}
        for path, runner in self._runners.items():
            if path and path not in refused and set(runner.declared) - set(operations.OPERATIONS):
                refused[path] = "it declares an operation in a way that its source does not show"
        if ceilings is not None:
            self._ceilings = measure.Ceilings(*ceilings)
        found = about(str(self._device))
        own = set(found["summaries"])
        for path, runner in self._runners.items():
            refused |= {file: words for file, words in runner.about.refused.items() if file in (path, *meanings)}
            for id, summary in runner.about.summaries.items():
                if id in found["summaries"] and id not in own and path:
                    refused.setdefault(path, f"it registers {id}, which {self._files.get(id) or 'kernelzoo'} has")
                found["summaries"].setdefault(id, summary)
                if id not in self._runners[""].about.summaries:
                    self._files.setdefault(id, path)
        return {**found, "files": self._files, "refused": refused}

    def _source_file(self, id: str) -> str:
        return self._files.get(id.partition("@")[0], "")

    def _runner(self, id: str) -> RunnerProcess:
        return self._runners[self._source_file(id)]

    def on_race(
        self, problem: dict[str, Any], ids: list[str], label: str, tables: dict[str, dict[str, int]], **how: Any
    ) -> dict[str, Any]:
        """Measure one problem; see :meth:`kernelzoo.measure.guard.Guard.race`. If a runner dies, only its ids fail."""
        asked, left, lost, tries = problem_from_json(problem), list(ids), [], 0
        if self._device.type == "cuda" and how["rounds"] and how["timed"] != "call" and not tables:
            from kernelzoo.measure.ceilings import ceilings

            try:
                if self._ceilings is None:
                    backends = sorted({id.partition("/")[0] for id in ids if not self._source_file(id)})
                    with self._runners[""].answer_in_background({"do": "tables", "backends": backends, "ops": []}):
                        self._ceilings = ceilings(self._device)
            except torch.OutOfMemoryError as error:
                words = f"{FULL}: {error}"
                return {"entries": [], "failed": [record.failure(asked, id, "refused", words) for id in ids]}
        while left:
            try:
                measured = measure.race(
                    asked,
                    [self._entrant(id, tables) for id in left],
                    self._device,
                    until_clear=not tables,  # tuning combines races of equal rounds
                    ceilings=self._ceilings,
                    own=self._runners[""],
                    progress=self._report_progress,
                    **how,
                )
            except DiedError as error:
                broken = [runner for runner in self._runners.values() if runner.broken]
                for runner in broken:
                    runner.restart()
                if error.id not in left and (tries := tries + 1) < _TRIES:  # no implementation was running: try again
                    continue
                blamed = [id for id in left if id == error.id or (error.id not in left and self._runner(id) in broken)]
                lost += [record.failure(asked, id, "failed", error.reason) for id in blamed or left]
                left = [id for id in left if id not in blamed] if blamed else []
                continue
            for id, one in measured.items():
                if self._source_file(id) in self._beside:
                    one.beside = BESIDE
            device, limits = str(self._device), None if how["timed"] == "call" else self._ceilings
            entries = []
            for one in measured.values():
                if one.samples:
                    entry = record.make_benchmark_entry(one, device, limits, label or "custom")
                    if not tables and (words := schema.find_error({"benchmarks": [entry]})):  # its runner sent nonsense
                        one.samples, one.failed = [], f"its facts are no result: {words.lstrip(': ')}"
                    else:
                        entries.append(entry)
            return {
                "entries": entries,
                "failed": [*lost, *(failure for m in measured.values() if (failure := record.find_failure_record(m)))],
                "right": [id for id, m in measured.items() if not m.samples and not record.find_failure_record(m)],
                "ceilings": astuple(self._ceilings) if self._ceilings else None,
            }
        return {"entries": [], "failed": lost, "right": []}

    def _entrant(self, id: str, tables: Mapping[str, Mapping[str, int]]) -> measure.Entrant:
        runner = self._runner(id)
        backend, op, variant = id.split("/")
        made = registry.Implementation(backend, op, variant, runner.about.summaries.get(id.partition("@")[0], ""))
        return measure.Entrant(made, runner, tables.get(id))

    # --- Requests that need no judge --------------------------------------------------------------------------------

    def _ask_runner_of_id(self, request_name: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of an implementation's runner. Without an id, ask the runner of kernelzoo's kernels."""
        return self._forward_request(self._runner(arguments.get("id", "")), request_name, arguments)

    on_tables = partialmethod(_ask_runner_of_id, "tables")
    on_plans = partialmethod(_ask_runner_of_id, "plans")
    on_verify = partialmethod(_ask_runner_of_id, "verify")
    on_fuzz = partialmethod(_ask_runner_of_id, "fuzz")
    on_fuzzing_limits = partialmethod(_ask_runner_of_id, "fuzzing_limits")

    def on_accuracy(self, ids: list[str], **request: Any) -> dict[str, Any]:
        rows = []
        for runner in dict.fromkeys(map(self._runner, ids)):
            some = [id for id in ids if self._runner(id) is runner]
            rows += self._forward_request(runner, "accuracy", {"ids": some, **request})["rows"]
        return {"rows": rows}

    def _forward_request(self, runner: RunnerProcess, request_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a runner's answer to a request."""

        def tell(stage: str, id: str) -> None:
            self._report_progress(stage, id, **runner.told)

        try:
            found = runner._ask({"do": request_name, **arguments}, tell)
            runner.end_strays()
            return found
        except DiedError as error:  # the guard replaces this process, and all runners with it
            self.in_hand = True
            raise DeviceLostError(error.id, error.reason) from None


def declares_operations(path: str, *importing: str) -> bool:
    """Whether a file declares operations: a definition, or a module that uses ``kernelzoo.operation``. A module that
    imports such a module from its folder counts too. ``importing``: modules that are being searched."""
    if definitions.is_task_folder(path):
        return True
    if not path.endswith(".py"):
        return definitions.read(path)[0] == "definition"
    if definitions.is_problem(path):
        return True
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    used = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    used += [one for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.decorator_list]
    names = {getattr(one, "attr", getattr(one, "id", "")) for one in used}
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    beside = {str(Path(path).with_name(f"{name}.py")) for name in imported} - {path, *importing}
    return "operation" in names or any(declares_operations(one, path, *importing) for one in beside)


if __name__ == "__main__":
    adopt_orphans()
    serve(Judge, *map(int, sys.argv[1:]))
