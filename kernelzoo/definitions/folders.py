"""Finds definitions in folders, and the solutions that belong to each, without running any of them."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelzoo.definitions.files import DefinitionError, Json, identifier, read
from kernelzoo.definitions.gpumode import defines_kernel, is_task_folder
from kernelzoo.definitions.kernelbench import is_problem, is_submission

_NUMBERED = re.compile(r"level_?(\d+)_problem_?(\d+)_")
"""The names that KernelBench gives to generated files."""

_LINKS = ("url", "link", "source_url", "homepage")
"""Keys of a solution that may hold an address."""


@dataclass(frozen=True)
class Solution:
    """A file with one implementation."""

    path: Path
    name: str
    """The name that its file states, else the file's own name."""
    author: str = ""
    link: str = ""
    published: float | None = None
    """The published speedup over the reference: the geometric mean over the workloads in its problem set's traces."""


@dataclass
class Task:
    """A definition and its solutions."""

    path: Path
    name: str
    kind: str
    """``definition`` (JSON), ``problem`` (KernelBench) or ``folder`` (gpu-mode)."""
    solutions: list[Solution] = field(default_factory=list)

    def digest(self, solution: Solution) -> str:
        """Return a hash of all bytes of the definition and the solution."""
        found = hashlib.sha256()
        paths = sorted(self.path.glob("*.*")) if self.path.is_dir() else [self.path]
        for path in (*paths, solution.path):
            found.update(path.read_bytes() if path.is_file() else b"")
        return found.hexdigest()


@dataclass(frozen=True)
class PairedSolutions:
    """The definitions and solutions that were found in folders."""

    tasks: tuple[Task, ...]
    """Definitions that have solutions, sorted by name."""
    refused: tuple[tuple[Path, str], ...]
    """Files of solutions that can't be judged, and the reason for each."""
    alone: int
    """The number of definitions without a solution."""


def pair_solutions(definitions: Path, solutions: Path) -> PairedSolutions:
    """Find the definitions in one folder, each with its solutions from another. Either path may be a single file.

    A solution of flashinfer-bench or SOL-ExecBench names its definition. A submission to KernelBench has its problem's
    name, or is in a folder with that name. A submission to gpu-mode is in a folder with its problem's name.

    Raises DefinitionError if there is no definition or no solution.
    """
    refused, by_name = dict[Path, str](), dict[str, Task]()
    known, twice, judged = _find_tasks(definitions, refused), dict[Path, str](), set[tuple[Path, str, str]]()
    for task in known:
        if task.kind != "definition" or by_name.setdefault(identifier(task.name), task) is task:
            continue
        twice[task.path] = f"a definition {task.name!r} is in {by_name[identifier(task.name)].path} already"
    published = _published_speedups({definitions, solutions})
    refused |= twice
    for path, data in _find_solutions(solutions, known, refused):
        try:
            task = by_name[identifier(data["definition"])] if data else _problem_of_submission(path, known)
        except LookupError:
            named = repr(data["definition"]) if data else "any, by its name or its folders'"
            refused[path] = f"its definition is not there: {named}"
            continue
        one = Solution(path, path.stem)
        if data:
            link = next((data[key] for key in _LINKS if isinstance(data.get(key), str)), "")
            stated = published.get((identifier(data["definition"]), data["name"]))
            one = Solution(path, data["name"], data["author"], link, stated)
        if (key := (task.path, identifier(one.author), identifier(one.name))) in judged:
            refused[path] = "another solution of its definition has its author and name"
            continue
        judged.add(key)
        task.solutions.append(one)
    tasks = tuple(task for task in known if task.solutions)
    if not known:
        raise DefinitionError(f"no definition, problem or task.yml lies in {definitions}")
    if not tasks and not refused:
        raise DefinitionError(f"no solution or submission lies in {solutions}")
    return PairedSolutions(tasks, tuple(refused.items()), len(known) - len(tasks) - len(twice))


def _glob(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield a folder's files of a pattern, or a file itself. Raises DefinitionError if the path does not exist."""
    if not folder.exists():
        raise DefinitionError(f"no file or folder {str(folder)!r}")
    yield from [folder] if folder.is_file() else sorted(folder.rglob(pattern))


def _find_tasks(root: Path, refused: dict[Path, str]) -> list[Task]:
    """Return the definitions, including incomplete ones. Loading an incomplete definition raises an error."""
    found = list[Task]()
    for path in _glob(root, "*.json"):
        data = _read_json_object(path, refused)
        if len({"axes", "inputs", "outputs", "reference"} & data.keys()) > 2:
            found.append(Task(path, str(data.get("name", path.stem)), "definition"))
    problems = [path for path in _glob(root, "*.py") if path.suffix == ".py" and is_problem(path)]
    found += [Task(path, path.stem, "problem") for path in problems]
    dirs = [path.parent for path in _glob(root, "task.yml") if path.name == "task.yml" and is_task_folder(path.parent)]
    found += [Task(path, path.name, "folder") for path in dirs]
    return sorted(found, key=lambda task: (task.name, task.path))


def _read_json_object(path: Path, refused: dict[Path, str]) -> Json:
    """Return a file's JSON object; {} for anything else. A file that is not JSON is added to ``refused``."""
    try:
        data = json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else {}
    except (OSError, ValueError) as error:
        refused[path] = f"no JSON: {error}"
        return {}
    return data if isinstance(data, dict) else {}


def _find_solutions(folder: Path, tasks: Sequence[Task], refused: dict[Path, str]) -> Iterator[tuple[Path, Any]]:
    """Yield each solution's file with its data, which is None for a Python submission. Add to ``refused`` any
    incomplete JSON solution, and any Python file in a problem's folder that is no submission."""
    for path in _glob(folder, "*.json"):
        data = _read_json_object(path, refused)
        if {"sources", "spec", "definition"} & data.keys() and not {"workload", "uuid"} & data.keys():
            try:
                yield path, read(path)[1]
            except DefinitionError as error:
                refused[path] = str(error).removeprefix(f"{path} ")
    problems, own = {task.name for task in tasks if task.kind != "definition"}, {task.path for task in tasks}
    for path in _glob(folder, "*.py"):
        if path.suffix == ".py" and (is_submission(path) or defines_kernel(path)):
            yield path, None
        elif path.suffix == ".py" and path.parent.name in problems and not {path, path.parent} & own:
            refused[path] = _why_no_submission(path)


def _why_no_submission(path: Path) -> str:
    """Return why a Python file is no submission."""
    try:
        ast.parse(path.read_bytes())
    except SyntaxError as error:
        return f"no Python: line {error.lineno}: {error.msg}"
    except (OSError, ValueError) as error:
        return f"no Python: {error}"
    return "it has neither ModelNew nor custom_kernel"


def _problem_of_submission(path: Path, tasks: Sequence[Task]) -> Task:
    """Return the problem of a submission. Raises LookupError."""
    kernel = defines_kernel(path)
    fitting = [task for task in tasks if task.kind == ("folder" if kernel else "problem")]
    named = [task for task in fitting if task.name in path.parts[:-1]]
    if not kernel:
        named += [task for task in fitting if path.stem.startswith(task.name)]
        if number := _NUMBERED.search(path.stem):
            level, place = number.groups()
            named += [
                task
                for task in fitting
                if task.path.parent.name == f"level{level}" and task.name.startswith(f"{place}_")
            ]
    if not named:
        raise LookupError(path)
    return max(named, key=lambda task: (len(task.name), _count_common_folders(task.path, path)))


def _count_common_folders(problem: Path, path: Path) -> int:
    """Return how many folder names a problem's and a submission's paths share, from the innermost on."""
    above = list(reversed(path.resolve().parts))
    names = list(reversed(problem.resolve().parts))
    if names[0] not in above:
        return len({*problem.resolve().parts} & {*path.resolve().parts})
    pairs = zip(names, above[above.index(names[0]) :], strict=False)
    return sum(1 for one, other in pairs if one == other)


def _published_speedups(folders: Iterable[Path]) -> dict[tuple[str, str], float]:
    """Return {(definition, solution): geometric mean of the speedups that flashinfer-bench's result files state}."""
    stated = dict[tuple[str, str], list[float]]()
    for path in sorted({path for folder in folders if folder.is_dir() for path in folder.rglob("*.jsonl")}):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"evaluation"' not in line or '"speedup_factor"' not in line:
                continue
            try:
                trace = json.loads(line)
                speedup = float(trace["evaluation"]["performance"]["speedup_factor"])
                key = identifier(trace["definition"]), str(trace["solution"])
            except (ValueError, KeyError, TypeError):
                continue
            if 0 < speedup < math.inf:
                stated.setdefault(key, []).append(speedup)
    return {key: math.exp(math.fsum(map(math.log, found)) / len(found)) for key, found in stated.items()}
