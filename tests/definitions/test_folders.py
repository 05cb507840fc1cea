"""Which solutions in a folder belong to which definitions, without running any of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelzoo.cli.folder import sample_problems, split_into_batches
from kernelzoo.cli.verdicts import Judgment, fault_kind
from kernelzoo.definitions.files import DefinitionError
from kernelzoo.definitions.folders import Solution, Task, pair_solutions

DEFINITION: dict[str, Any] = {
    "name": "doubled",
    "axes": {"rows": {"type": "var"}},
    "inputs": {"x": {"shape": ["rows"], "dtype": "float32"}},
    "outputs": {"out": {"shape": ["rows"], "dtype": "float32"}},
    "reference": "def run(x):\n    return 2 * x",
}
PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


def solution(name: str, **more: Any) -> dict[str, Any]:
    spec = {"language": "python", "entry_point": "main.py::run"}
    sources = [{"path": "main.py", "content": "def run(x):\n    return 2 * x"}]
    return {"name": name, "definition": "doubled", "author": "me", "spec": spec, "sources": sources, **more}


def test_solutions_find_their_definitions(written: Callable[..., Path], tmp_path: Path) -> None:
    there, mine = tmp_path / "there", tmp_path / "mine"
    written(DEFINITION, there / "definitions" / "a.json")
    written(DEFINITION, there / "definitions" / "z.json")
    written({**DEFINITION, "name": "alone"}, there / "definitions" / "alone.json")
    for level, name in ((1, "3_ReLU"), (2, "3_Other"), (1, "30_ReLU")):
        written(PROBLEM, there / f"level{level}" / f"{name}.py")
    for set_ in ("old", "new"):
        written("tests:\n", there / set_ / "sum_py" / "task.yml")
        written("", there / set_ / "sum_py" / "reference.py")
    written(solution("one", url="https://example.org/one"), mine / "one.json")
    written(solution("lost", definition="nowhere"), mine / "lost.json")
    written({**solution("broken"), "spec": {}}, mine / "broken.json")
    written("class ModelNew: ...", mine / "level_2_problem_3_sample_0_kernel.py")
    written("class ModelNew: ...", mine / "30_ReLU_fast.py")
    written("class ModelNew: ...", mine / "3_ReLU" / "mine.py")
    written("custom_kernel = print", mine / "new" / "sum_py" / "fast.py")
    written("class ModelNew: ...", mine / "stray.py")
    traces = [
        {"definition": "doubled", "solution": "one", "evaluation": {"performance": {"speedup_factor": s}}}
        for s in (2.0, 8.0)
    ]
    written("\n".join(map(json.dumps, traces)) + "\nno JSON\n", mine / "traces" / "t.jsonl")
    found = pair_solutions(there, mine)
    said = {one.path.stem: task.path.relative_to(there).as_posix() for task in found.tasks for one in task.solutions}
    assert said == {
        "one": "definitions/a.json",
        "level_2_problem_3_sample_0_kernel": "level2/3_Other.py",
        "30_ReLU_fast": "level1/30_ReLU.py",
        "mine": "level1/3_ReLU.py",
        "fast": "new/sum_py",
    }
    (one,) = next(task for task in found.tasks if task.name == "doubled").solutions
    assert one.link == "https://example.org/one" and one.published == pytest.approx(4.0)
    refused = {path.stem: words for path, words in found.refused}
    assert refused.keys() == {"z", "lost", "broken", "stray"} and "lacks" in refused["broken"]
    assert found.alone == 2
    with pytest.raises(DefinitionError, match="no definition"):
        pair_solutions(mine / "traces", mine)
    with pytest.raises(DefinitionError, match="no file or folder"):
        pair_solutions(tmp_path / "nowhere", mine)


def test_no_broken_file_is_lost(written: Callable[..., Path], tmp_path: Path) -> None:
    there, mine = tmp_path / "there", tmp_path / "mine"
    written(DEFINITION, there / "a.json")
    written("{", there / "torn.json")
    written({key: value for key, value in DEFINITION.items() if key != "axes"} | {"name": "part"}, there / "part.json")
    written(PROBLEM, there / "3_ReLU.py")
    written('{"name": ', mine / "cut.json")
    written({key: value for key, value in solution("half").items() if key != "sources"}, mine / "half.json")
    written({"rows": 3}, mine / "other.json")
    written("class ModelNew:\n    def (", mine / "3_ReLU" / "syntax.py")
    written("x = 1\n\nx = (", mine / "3_ReLU" / "torn.py")
    written("x = 1", mine / "3_ReLU" / "neither.py")
    written("x = (", mine / "tools" / "other.py")
    written(solution("one"), mine / "one.json")
    written(solution("one"), mine / "two.json")
    found = pair_solutions(there, mine)
    assert {path.name: words.partition(": Exp")[0] for path, words in found.refused} == {
        "torn.json": "no JSON",
        "cut.json": "no JSON",
        "half.json": "is no solution: it lacks 'sources'",
        "torn.py": "no Python: line 3: '(' was never closed",
        "neither.py": "it has neither ModelNew nor custom_kernel",
        "two.json": "another solution of its definition has its author and name",
    }
    assert {task.name: [one.name for one in task.solutions] for task in found.tasks} == {
        "doubled": ["one"],
        "3_ReLU": ["syntax"],
    }
    assert found.alone == 1


def test_batches_hold_few_solutions_and_no_name_twice() -> None:
    tasks = [
        (
            Task(Path(f"{name}{number}"), name, "folder"),
            [Solution(Path(f"{name}{number}{i}"), "s") for i in range(count)],
        )
        for number, (name, count) in enumerate((("a", 5), ("b", 1), ("b", 1), ("c", 2)))
    ]
    parts = [[(task.name, len(some)) for task, some in batch] for batch in split_into_batches(tasks, 4)]
    assert parts == [[("a", 4)], [("a", 1), ("b", 1)], [("b", 1), ("c", 2)]]
    problems: list[Any] = list(range(31))
    some: list[Any] = sample_problems(problems, 3)
    assert some == [0, 15, 30] and len(sample_problems(problems[:2], 3)) == 2


@pytest.mark.parametrize(
    ("failed", "kind"),
    [
        ({"outcome": "failed", "reason": "hung in check"}, "hangs"),
        ({"outcome": "failed", "reason": "the process was killed by SIGSEGV"}, "crashes"),
        (
            {"outcome": "wrong", "kind": "wrong kind of result", "reason": "out that it returned has dtype a"},
            "wrong dtype",
        ),
        ({"outcome": "wrong", "kind": "drops NaN", "reason": "got 1"}, "drops NaN"),
        ({"outcome": "wrong", "kind": "false time", "reason": "a turn"}, "timing: false time"),
        (
            {"outcome": "wrong", "kind": "wrong value", "reason": "right when checked alone, wrong when timed: x"},
            "timing: wrong value",
        ),
        (
            {"outcome": "wrong", "kind": "wrong value", "reason": "under another current stream in the same memory: x"},
            "not on the current stream",
        ),
    ],
)
def test_kinds_of_faults(failed: dict[str, Any], kind: str) -> None:
    assert fault_kind(failed) == kind


def test_a_solution_that_raises_everywhere_can_not_run_here(written: Callable[..., Path]) -> None:
    path = written(solution("one"), "one.json")
    task = Task(written(DEFINITION, "d.json"), "doubled", "definition")
    raised = {"outcome": "failed", "reason": "raised RuntimeError: no such instruction"}
    problem: Any = "a workload"
    case = Judgment("one.json", task, Solution(path, "one"), ["me/doubled/one"])
    case.add(problem, raised, None, None)
    assert (case.decide_verdict(2)["verdict"], case.decide_verdict(2)["kind"]) == ("refused", "raises")
    case.add(problem, None, 1e-6, 4e-6)
    assert (case.decide_verdict(2)["verdict"], case.decide_verdict(2)["kind"]) == ("wrong", "raises")
    case = Judgment("one.json", task, Solution(path, "one"), ["me/doubled/one"])
    case.add(problem, {"outcome": "refused", "kind": "undecidable", "reason": "its own reference"}, None, None)
    assert case.decide_verdict(2)["verdict"] == "undecidable"
    case.add(problem, None, 1e-6, 4e-6)
    found = case.decide_verdict(2)
    assert found["verdict"] == "right" and found["ratio"] == pytest.approx(0.25) and found["undecidable_on"] == 1
