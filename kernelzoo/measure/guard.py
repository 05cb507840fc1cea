"""Measuring in a guarded process. If that process crashes, hangs or loses its device, only one result is lost."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from kernelzoo.check.verifying import CheckResults, Finding
from kernelzoo.measure import record, worker_process
from kernelzoo.measure.gpus import Gpu
from kernelzoo.measure.measurement import UNJUDGED
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import WAITING, DiedError, GuardError, Json, Progress, WorkerProcess, say_nothing

_MOST_DEATHS = 4
"""The most processes that one implementation may kill in one batch of cases, since each restart takes seconds."""


class Guard(WorkerProcess):
    """The parent of a judge process, which measures implementations. The guard restarts the process if it exits.

    ``modules``: Python files that register implementations; this process does not load them. ``patience``: seconds
    without a reply after which a step counts as hung. ``needs``: for each file of kernels, the files of operations that
    it needs; None means all. If ``needs`` is given and a file can't be loaded, only its kernels are lost, and
    ``about.refused`` says why. Use it as a context manager. Raises GuardError if the process can't start.
    """

    def __init__(
        self,
        device: str = "",
        modules: Sequence[str] = (),
        *,
        patience: float = 180.0,
        gpu: Gpu | None = None,
        needs: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._checker: WorkerProcess | None = None
        opening: Json = {"patience": patience, "ceilings": None}
        if needs is not None:
            opening["needs"] = {os.path.abspath(own): list(map(os.path.abspath, of)) for own, of in needs.items()}
        # By default the judge's idle threads would spin for milliseconds, and so disturb a runner's turn.
        opening["waiting"] = os.environ.get(WAITING)
        # A runner that hangs is ended by the judge, before the judge counts as hung.
        super().__init__(
            device, modules, patience=2 * patience, gpu=gpu, opening=opening, environment={WAITING: "PASSIVE"}
        )
        if needs is None and self.about.refused:
            self.close()
            raise GuardError(next(iter(self.about.refused.values())))

    program = "kernelzoo.measure.judge.process"

    def close(self) -> None:
        """End the judge process, and the process that runs the profiler."""
        super().close()
        if self._checker is not None:
            self._checker.close()

    def race(
        self,
        problem: Problem,
        ids: Sequence[str],
        *,
        rounds: int = 15,
        cache: str = "cold",
        timed: str = "device",
        energy: bool = False,
        cross_check: bool = False,
        label: str = "",
        tables: Mapping[str, Mapping[str, int]] | None = None,
        waive: Sequence[str] = (),
        progress: Progress = say_nothing,
    ) -> tuple[list[Json], list[Json]]:
        """Measure implementations by :func:`kernelzoo.measure.race`. Returns entries of a results file, and failures.

        ``tables``: the knobs of ids such as ``backend/op/variant@label``. An implementation that kills the process,
        hangs or breaks the device fails, and the others are measured again. If ``cross_check``, the profiler times
        cold GPU results too. If ``rounds`` is 0, nothing is timed, so right implementations are in neither list.
        """
        request = {"do": "race", "problem": asdict(problem), "rounds": rounds, "cache": cache, "timed": timed}
        request |= {"energy": energy, "label": label, "waive": list(waive)}
        request["tables"] = {id: dict(values) for id, values in (tables or {}).items()}
        judge = partial(_find_answer_mismatch, problem, cache, rounds)
        done, lost = self._ask_without_deadly_ids(
            request, ids, partial(record.failure, problem, outcome="failed"), progress, judge
        )
        entries, failed = done.get("entries", []), lost + done.get("failed", [])
        self._opening["ceilings"] = done.get("ceilings") or self._opening["ceilings"]  # for the next process
        if cross_check and cache == "cold":
            twice = {e["extra_info"]["id"]: e for e in entries if e["extra_info"]["clock"] == "device"}
            for id, seconds in self.cross_check(problem, list(twice), progress).items() if twice else ():
                if id in twice:
                    record.add_cross_check(twice[id], seconds)
        for facts in (*(entry["extra_info"] for entry in entries), *failed):
            facts["gpu"] = self.about.gpu
        return entries, failed

    def _ask_without_deadly_ids(
        self,
        request: Json,
        ids: Sequence[str],
        make_failure: Callable[..., Json],
        progress: Progress = say_nothing,
        find_mismatch: Callable[[Sequence[str], Json], str] = lambda ids, done: "",
    ) -> tuple[Json, list[Json]]:
        """Repeat a request without the ids that kill the process. Returns the answer, and a failure of each such id."""
        left, lost = list(ids), list[Json]()
        while left:
            try:
                return self._ask({**request, "ids": left}, progress, judge=partial(find_mismatch, left)), lost
            except DiedError as error:
                self.restart()
                # If no id was running, or no signal killed the process, the kernels may be right: "unjudged".
                known = error.id in left
                blamed, unjudged = [error.id] if known else left, not known or worker_process.ENDED in error.reason
                lost += [
                    make_failure(id=id, reason=error.reason) | ({"kind": UNJUDGED} if unjudged else {}) for id in blamed
                ]
                left = [id for id in left if id not in blamed]
        return {}, lost

    def cross_check(self, problem: Problem, ids: Sequence[str], progress: Progress) -> dict[str, float]:
        """Time launches by the profiler in a second process. Returns seconds by id. Ids without a time are left out."""
        try:
            if self._checker is None:
                self._checker = WorkerProcess(self._device, self._modules, patience=self._patience, gpu=self._gpu)
            request = {"do": "cross_check", "problem": asdict(problem), "ids": list(ids)}
            return self._checker._ask(request, progress)
        except (DiedError, GuardError):
            if self._checker is not None:
                self._checker.close()
                self._checker = None
            return {}

    def verify(
        self,
        id: str,
        problems: Sequence[Problem],
        progress: Progress = say_nothing,
        *,
        cases: Sequence[str] = (),
        dtypes: Sequence[str] = (),
        seed: int = 0,
    ) -> Json:
        """Check one implementation against the contract, and by the gate on some problems.

        Returns a :class:`kernelzoo.check.verifying.CheckResults` as JSON. ``cases`` are names or globs. Empty
        arguments mean all. ``seed`` is for the gate's inputs. A case that kills the process or hangs ends the check.
        """
        request = {"do": "verify", "id": id, "problems": [asdict(p) for p in problems], "seed": seed}
        try:
            return self._ask({**request, "cases": list(cases), "dtypes": list(dtypes)}, progress)
        except DiedError as error:
            case = error.id.partition(" ")[2]
            known = self.told.get("input", {}) if case else {}
            self.restart()
            kind = "hangs" if error.reason.startswith("hung") else "crashes"
            reason = f"{error.reason}; its other cases were not checked"
            return CheckResults(findings=[Finding(id, case, kind, reason, **known)]).document()

    def find_fuzzing_limits(self, id: str) -> Json:
        """Return the largest fuzzing case's ``elements``, the ``emulator`` if one runs it, or why none can run."""
        try:
            return self._ask({"do": "fuzzing_limits", "id": id}, say_nothing, at_least=worker_process.IMPORTING)
        except DiedError as error:
            self.restart()
            return {"unavailable": f"importing its backend: {error.reason}", "elements": 0, "emulator": ""}

    def fuzz(self, id: str, cases: Sequence[str]) -> Json:
        """Run fuzzing cases through one implementation; see :class:`kernelzoo.check.fuzz.running.FuzzCounts`.

        A case that kills the process or hangs counts as ``wrong``. After _MOST_DEATHS such cases the rest is skipped.
        """
        total: Json = {"wrong": [], "unavailable": ""}
        deaths = 0
        spans = [(0, len(cases), "")]  # first, end, and why the last case is suspected: then cases run one by one
        while spans and deaths < _MOST_DEATHS and not total["unavailable"]:
            start, stop, suspicion = spans.pop(0)
            if start == stop:
                continue
            at = [0, 0]

            def told(stage: str, id: str, at: list[int] = at) -> None:
                at[:] = map(int, stage.split())

            request = {"do": "fuzz", "id": id, "cases": list(cases[start:stop]), "one_by_one": bool(suspicion)}
            try:
                found = self._ask(request, told)
            except DiedError as error:
                self.restart()
                waiting, number = (start + place for place in at)
                # No progress was reported for the previous cases, so they run again.
                if waiting == number:
                    total["wrong"].append([number, error.reason])
                    again = [(start, number, suspicion), (number + 1, stop, suspicion)]
                else:
                    again = [(start, waiting, ""), (waiting, number + 1, error.reason), (number + 1, stop, "")]
                spans = again + spans
                deaths += 1
                continue
            if suspicion and not found["wrong"]:
                found["wrong"].append([stop - 1 - start, f"{suspicion}; it passed when run alone"])
            for name, value in found.items():
                if name == "wrong":
                    total["wrong"] += [[start + number, words] for number, words in value]
                elif name == "unavailable":
                    total[name] = total[name] or value
                else:
                    total[name] = total.get(name, 0) + value
        return total

    def accuracy(self, op: str, dtype: str, ids: Sequence[str], values: int, seed: int) -> list[Json]:
        """Return rows of accuracy; see :func:`kernelzoo.check.accuracy.measure`.

        If an id kills the process or hangs, its row has ``failed``. The others are measured again without it.
        """
        request = {"do": "accuracy", "op": op, "dtype": dtype, "values": values, "seed": seed}
        row = {"op": op, "dtype": dtype}
        done, lost = self._ask_without_deadly_ids(request, ids, lambda id, reason: {"id": id, **row, "failed": reason})
        return [*done.get("rows", []), *lost]


def _find_answer_mismatch(problem: Problem, cache: str, rounds: int, ids: Sequence[str], done: Json) -> str:
    """Return how a race's answer differs from its request; "" if it matches. Each id must occur exactly once."""
    facts = {"op": problem.op, **record.describe_problem(problem)}
    scalars = facts.pop("scalars", {})  # the answer may have more, which were drawn with the inputs
    asked = json.dumps(facts, sort_keys=True)
    try:
        infos, failed = [entry["extra_info"] for entry in done["entries"]], done["failed"]
        checked = [] if rounds else done.get("right", [])
        if (told := sorted([*checked, *(row["id"] for row in (*infos, *failed))])) != sorted(ids):
            return f"rows of {told}"
        for row in (*infos, *failed):
            if (found := json.dumps({name: row.get(name) for name in facts}, sort_keys=True)) != asked:
                return f"{row['id']} on {found}"
            if not scalars.items() <= row.get("scalars", {}).items():
                return f"{row['id']} with the scalars {row.get('scalars')}"
        for entry, info in zip(done["entries"], infos, strict=True):
            data = entry["stats"]["data"]
            if info["cache"] != cache or not data or not all(0 < sample < math.inf for sample in data):
                return f"{info['id']} with {len(data)} samples of a {info['cache']} cache"
        outcomes = {row["outcome"] for row in failed} - {"wrong", "failed", "refused"}
        return f"outcomes {outcomes}" if outcomes else ""
    except (AttributeError, KeyError, TypeError) as error:
        return f"it lacks {error}"
