"""``kernelzoo compare --definitions FOLDER --solutions FOLDER``: a verdict on each solution, in one run.

All solutions of a definition are judged together, on the same inputs and against the same times of its reference.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from kernelzoo import files
from kernelzoo.cli import measuring, options, output, sizes, verdicts
from kernelzoo.cli.guards import check_gpus, run_in_threads
from kernelzoo.cli.progress import Bar
from kernelzoo.definitions.folders import PairedSolutions, Solution, Task, pair_solutions
from kernelzoo.definitions.loading import workloads_beside
from kernelzoo.definitions.reference import CHANGES, RANDOM
from kernelzoo.measure import Problem
from kernelzoo.measure.gpus import Gpu
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.measurement import UNDECIDABLE, UNJUDGED
from kernelzoo.measure.record import Record
from kernelzoo.measure.worker_process import GuardError

Row = dict[str, Any]
Batch = list[tuple[Task, list[Solution]]]
"""Definitions with solutions whose processes run at the same time. A process is suspended while it has no work."""

JUDGED, TIMED = 10, 3
"""How many workloads of a definition are judged, and timed, at most. Of more, an even sample by size is taken."""

LONGEST, TIMED_LONGEST = 15.0, 60.0
"""Time limits for judging a definition, in seconds per solution. After the first limit, only the workloads to time are
judged. After the second limit, none are judged."""

ROUNDS = 7
"""The maximum number of rounds with which a race starts. Rounds are added while a verdict is unclear."""


@dataclass(frozen=True)
class JudgingOptions:
    """The options that say which solutions are judged, and how."""

    definitions: Path
    solutions: Path
    device: str
    patience: float
    rounds: int
    cache: str


def judge_solution_folder(settings: JudgingOptions, gpus: str, to: Path | None, *, resume: bool, json: bool) -> int:
    """Judge all solutions in a folder against their definitions' references. Returns the exit status."""
    if resume and to is None:
        raise options.OptionError("--resume needs the file to continue: -o FILE")
    places: list[Gpu | None] = [*check_gpus(gpus, settings.device)] or [None]
    root = settings.solutions
    found = pair_solutions(settings.definitions, root)
    errors, record, whole = output.console(errors=True), None, True
    stored = _read_verdicts(to) if resume and to and to.exists() else {}
    known = {path: one for path, one in stored.items() if path in {_name(s.path, root) for s in _list_solutions(found)}}
    work = _select_unjudged(found, root, known)
    with Bar() as bar, nullcontext() if to is None else measuring.reserve_file(to, resume=resume):
        errors.print(f"runs {sum(len(s) for _, s in work)} solutions below {root}, with all that this user may do")
        if stored:
            errors.print(f"{to} holds {len(stored)} verdicts; {sum(len(s) for _, s in work)} solutions are left")
        parts = list(split_into_batches(work, max(2, (os.cpu_count() or 2) // len(places))))
        count = sum(map(len, parts))
        bar.set_total(sum(len(some) for _, some in work), count)
        crew = FolderJudge(parts, places, settings, bar)
        refusal = {"definition": "", "verdict": "refused", "kind": "no solution"}
        unread = [(_name(path, root), words) for path, words in found.refused]
        told = [{"file": file, "solution": file, **refusal, "reason": words} for file, words in unread]
        known |= {one["file"]: one for one in told}
        try:
            for number, one in enumerate(crew.results(), 1):
                if to and record is None:
                    record = Record(to, one.device, resume=resume)
                if record:
                    record.add(one.entries, one.failed, [*told, *one.verdicts])
                    told = []
                known |= {verdict["file"]: verdict for verdict in one.verdicts}
                bar.say(f"[{number}/{count}] {one.name}: {verdicts.tally_text(one.verdicts)}")
        except KeyboardInterrupt:
            whole = False
    if json:
        found_ones = {"verdicts": [*known.values()], "file": str(to) if to else None}
        output.print_json({**found_ones, **({} if whole else {"interrupted": True})})
    else:
        verdicts.print_verdicts([*known.values()], JUDGED, TIMED)
        if found.alone:
            output.console().print(f"{found.alone} definitions have no solution", style="dim")
    if not whole:
        return output.report_interruption(f"{len(known)} of {len(_list_solutions(found))} solutions", to)
    said = {one["verdict"] for one in known.values()}
    return 1 if "wrong" in said else 0 if "right" in said else 2


@dataclass(frozen=True)
class SolutionResults:
    """The results of all solutions of one problem definition."""

    name: str
    device: str
    entries: list[Row]
    failed: list[Row]
    verdicts: list[Row]


@dataclass
class FolderJudge:
    """The judge of all solutions, in batches, with one thread per GPU."""

    work: Sequence[Batch]
    places: Sequence[Gpu | None]
    settings: JudgingOptions
    bar: Bar
    guards: list[Guard] = field(default_factory=list)

    def results(self) -> Iterator[SolutionResults]:
        """Yield each definition's results as soon as they are complete. Close all processes at the end."""
        try:
            for _, _, one in run_in_threads(self.work, self.judge_batch, self.places):
                yield one
        finally:
            for guard in self.guards:
                guard.close()

    def judge_batch(self, place: Gpu | None, batch: Batch) -> Iterator[SolutionResults]:
        """Judge a batch and yield each definition's results. If the batch can't start, start each definition alone."""
        needs = {str(one.path): [str(task.path)] for task, some in batch for one in some}
        modules = [*(str(task.path) for task, _ in batch), *needs]
        self.bar.show_step(f"starting {len(needs)} solutions")
        try:
            guard = Guard(self.settings.device, modules, patience=self.settings.patience, gpu=place, needs=needs)
        except GuardError as error:
            for task, some in batch:
                if len(needs) > 1:
                    for solution in some:
                        yield from self.judge_batch(place, [(task, [solution])])
                else:
                    yield self.refuse_all(task, some, str(error))
            return
        self.guards.append(guard)
        left = list(batch)
        with guard:
            while left:
                task, some = left.pop(0)
                try:
                    found = self.judge_definition(guard, task, some)
                except GuardError as error:  # the definition is at fault, or the judge died
                    yield self.refuse_all(task, some, str(error))
                    break
                yield found
        if left:
            yield from self.judge_batch(place, left)

    def refuse_all(self, task: Task, solutions: Sequence[Solution], words: str) -> SolutionResults:
        """Return verdicts that refuse all of a definition's solutions for one reason."""
        told = [verdicts.Judgment(self.solution_name(one), task, one).refused(words) for one in solutions]
        return SolutionResults(task.name, "", [], [], told)

    def solution_name(self, solution: Solution) -> str:
        return _name(solution.path, self.settings.solutions)

    def judge_definition(self, guard: Guard, task: Task, solutions: Sequence[Solution]) -> SolutionResults:
        """Judge the solutions of one definition together."""
        self.bar.begin_item(len(solutions))
        about, cases = guard.about, list[verdicts.Judgment]()
        why = about.refused.get(os.path.abspath(task.path), "")
        result = SolutionResults(task.name, about.device_name, [], [], [])
        for solution in solutions:
            path, case = os.path.abspath(solution.path), verdicts.Judgment(self.solution_name(solution), task, solution)
            case.ids = [id for id, file in about.files.items() if file == path]
            if words := why or about.refused.get(path, ""):
                file = os.path.abspath(task.path) if why else path
                words = words.removeprefix(f"{file}: ").replace(f"{file} can't", "it can't")
                result.verdicts.append(case.refused(words, "definition" if why else ""))
            elif not case.ids:
                result.verdicts.append(case.refused("another solution of its definition has its author and name"))
            else:
                cases.append(case)
        ops = list(dict.fromkeys(options.op_of(id) for case in cases for id in case.ids))
        problems, unmade = verdicts.convert_workloads_to_problems(task, ops) if cases else ([], [])
        for case in cases if task.kind == "definition" else ():
            case.inputs_from_files = sizes.inputs_from_files(workloads_beside(task.path))
        judged = sample_problems(problems, JUDGED)
        timed, start = sample_problems(judged, TIMED), monotonic()
        for one in sorted(judged, key=lambda problem: problem not in timed):
            rounds, cap = (min(self.settings.rounds, ROUNDS), TIMED_LONGEST) if one in timed else (0, LONGEST)
            if monotonic() - start < cap * len(cases) and not self.judge_on_workload(guard, one, cases, result, rounds):
                break
        for case in cases:
            result.verdicts.append(case.decide_verdict(len(problems), unmade))
        return result

    def judge_on_workload(
        self, guard: Guard, workload: Problem, judged: Sequence[verdicts.Judgment], result: SolutionResults, rounds: int
    ) -> bool:
        """Judge the solutions on one workload, except those already found wrong, and time them with the reference.

        ``rounds``: how many to time, or 0 for none. Returns False if no other workload should be judged: the reference
        changes an input that it returns, draws random numbers, dies or hangs, or the judging process dies or hangs."""
        mine = {id: one for one in judged for id in one.ids if options.op_of(id) == workload.op and not one.wrong}
        if not mine:
            return True
        reference = f"reference/{workload.op}/reference"
        beside = [reference] if rounds and reference not in mine else []
        entries, failed = self.race_ids(guard, workload, [*beside, *mine], rounds)
        for row in [row for row in failed if row.get("kind") == "false time"]:  # a busy host may cause it too
            again, still = self.race_ids(guard, workload, [row["id"]], rounds)
            failed = [other for other in failed if other is not row] + still
            entries += again
        for _ in range(2):  # the reference may break its bounds on one draw of inputs, and not on others
            unlucky = [row["id"] for row in failed if row.get("kind") == UNDECIDABLE and " is wrong" in row["reason"]]
            if not unlucky:
                break
            again, still = self.race_ids(guard, workload, unlucky, rounds)
            failed = [row for row in failed if row["id"] not in unlucky] + still
            entries += again
        result.entries.extend(entries)
        result.failed.extend(failed)
        lost = {row["id"]: row for row in failed}
        if lost.get(reference, {}).get("outcome") == "failed":
            lost |= {id: row | {"kind": UNJUDGED} for id, row in lost.items() if row["outcome"] == "failed"}
        times = {entry["extra_info"]["id"]: entry["stats"]["median"] for entry in entries}
        for id, case in mine.items():
            case.add(workload, lost.get(id), times.get(id), times.get(reference))
        return not any(
            row.get("kind") == UNJUDGED or row["reason"].startswith((CHANGES, RANDOM)) for row in lost.values()
        )

    def race_ids(self, guard: Guard, problem: Problem, ids: Sequence[str], rounds: int) -> tuple[list[Row], list[Row]]:
        return guard.race(
            problem,
            ids,
            rounds=rounds,
            cache=self.settings.cache,
            label="definitions",
            progress=lambda stage, id: self.bar.show_step(f"{problem.id}: {stage} {id}"),
        )


def split_into_batches(work: Batch, most: int) -> Iterator[Batch]:
    """Split the work into batches of at most ``most`` solutions. Definitions of the same name get different batches."""
    batch: Batch = []
    for task, some in work:
        for start in range(0, len(some), most):
            part = some[start : start + most]
            full = sum(len(one) for _, one in batch) + len(part) > most
            if batch and (full or task.name in {other.name for other, _ in batch}):
                yield batch
                batch = []
            batch.append((task, list(part)))
    if batch:
        yield batch


def sample_problems(problems: Sequence[Problem], most: int) -> list[Problem]:
    """Return at most ``most`` problems at evenly spaced indices, including the first and the last."""
    if len(problems) <= most:
        return list(problems)
    return [problems[round(place * (len(problems) - 1) / (most - 1))] for place in range(most)]


def _list_solutions(paired: PairedSolutions) -> list[Solution]:
    return [solution for task in paired.tasks for solution in task.solutions]


def _name(path: Path, root: Path) -> str:
    """Return the name of a solution in verdicts: its path relative to ``root``, or else its file name."""
    return path.relative_to(root).as_posix() if path != root and path.is_relative_to(root) else path.name


def _select_unjudged(found: PairedSolutions, root: Path, known: dict[str, Row]) -> Batch:
    """Return definitions with the solutions to judge: those without a verdict, or edited after their verdict."""
    work: Batch = []
    for task in found.tasks:
        if some := [s for s in task.solutions if known.get(_name(s.path, root), {}).get("sha256") != task.digest(s)]:
            work.append((task, some))
    return work


def _read_verdicts(path: Path) -> dict[str, Row]:
    """Read the verdicts in a results file, by the name of the solution's file. Raises FileError."""
    document = files.read_json(path)
    ours = document.get("kernelzoo") if isinstance(document, dict) else None
    found = ours.get("verdicts", ()) if isinstance(ours, dict) else ()
    return {one["file"]: one for one in found}
