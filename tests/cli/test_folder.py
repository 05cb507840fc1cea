"""``kernelzoo compare`` on a folder of solutions: verdicts, a file that is continued, and what is refused."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from registered import forget_operation

import kernelzoo as package
from kernelzoo.cli import folder, verdicts

DEFINITION: dict[str, Any] = {
    "name": "scaled_rows",
    "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 32}},
    "inputs": {"x": {"shape": ["rows", "width"], "dtype": "bfloat16"}},
    "outputs": {"out": {"shape": ["rows", "width"], "dtype": "bfloat16"}},
    "reference": "def run(x):\n    return (3 * x.float()).bfloat16()",
}
SOLUTIONS = {
    "right": ("def run(x):\n    return x * 3", "right", ""),
    "wide": ("def run(x):\n    return x.float() * 3", "wrong", "wrong dtype"),
    "off": ("def run(x):\n    return x * 3.5", "wrong", "wrong value"),
    "unbuilt": ("import nothing_there", "refused", "does not compile"),
    "dies": ("import os\ndef run(x):\n    os._exit(3)", "wrong", "crashes"),
}
"""By name, the code, and the verdict and kind that it gets."""
BOTH = ("--definitions", "there", "--solutions", "mine")


@pytest.fixture(autouse=True)
def forgets() -> Iterator[None]:
    """This process has learned of the operation."""
    yield
    forget_operation("scaled_rows")


def put(to: Path, solutions: Iterable[str] = tuple(SOLUTIONS), counts: Sequence[int] = (4, 64)) -> None:
    (to / "there").mkdir()
    (to / "mine").mkdir()
    (to / "there" / "d.json").write_text(json.dumps(DEFINITION))
    workloads = [{"axes": {"rows": rows}, "inputs": {"x": {"type": "random"}}} for rows in counts]
    (to / "there" / "d.jsonl").write_text("\n".join(map(json.dumps, workloads)) + "\n")
    for name in solutions:
        put_solution(to, name, "scaled_rows", SOLUTIONS[name][0])


def put_solution(to: Path, name: str, definition: str, code: str) -> None:
    spec = {"language": "python", "entry_point": "main.py::run", "destination_passing_style": False}
    made: dict[str, Any] = {"name": name, "author": "me", "definition": definition, "spec": spec}
    made["sources"] = [{"path": "main.py", "content": code}]
    (to / "mine" / f"{name}.json").write_text(json.dumps(made))


@pytest.fixture
def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[int, Any]]:
    """Judge the one solution that was put; the exit status and what is told of it."""

    def run() -> tuple[int, Any]:
        how = folder.JudgingOptions(tmp_path / "there", tmp_path / "mine", "cpu", 60.0, 2, "hot")
        status = folder.judge_solution_folder(how, "", None, resume=False, json=True)
        (found,) = json.loads(capsys.readouterr().out)["verdicts"]
        return status, found

    return run


def test_each_solution_gets_a_verdict(kernelzoo, answer, tmp_path) -> None:
    put(tmp_path)
    command = ("compare", *BOTH, "--device", "cpu", "-o", "v.json")
    status, told = answer(*command, "--rounds", "2")
    assert status == 1, told
    found = {one["solution"]: one for one in told["verdicts"]}
    assert {name: (one["verdict"], one["kind"]) for name, one in found.items()} == {
        name: told[1:] for name, told in SOLUTIONS.items()
    }
    assert found["unbuilt"]["reason"].startswith("it can't be built: ModuleNotFoundError")
    right, off = found["right"], found["off"]
    assert (right["right_on"], right["timed_on"], right["workloads"]) == (2, 2, 2)
    assert right["median_us"] > 0 and right["ratio"] > 0 and right["id"] == "me/scaled_rows/right"
    assert off["case"]["axes"] == {"rows": 4} and len(off["case"]["place"]) == 2 and " to " in off["case"]["expected"]
    rows = package.results.read(tmp_path / "v.json")
    measured = {row["id"] for row in rows if row["outcome"] == "measured"}
    assert measured >= {"me/scaled_rows/right", "reference/scaled_rows/reference"}

    assert kernelzoo(*command).returncode == 2
    (tmp_path / "mine" / "off.json").unlink()
    done = kernelzoo(*command, "--resume", COLUMNS="80")
    assert done.returncode == 1 and "0 solutions are left" in " ".join(done.stderr.split())
    lines = [line for line in done.stdout.splitlines() if str(tmp_path) not in line]  # a path is not wrapped
    assert max(map(len, lines)) <= 80
    assert "1 right, 1 refused, 2 wrong" in done.stdout and "off" not in done.stdout.split()


DRAWN = """
import torch
def make(given, device):
    return {"x": torch.ones(given["rows"], 8, device=device), "shift": float(given["start"])}
def run(x, shift):
    return x + shift
"""


def test_a_faulty_definition_costs_only_its_own(answer, tmp_path) -> None:
    """One whose inputs need the size of an axis that no tensor has is judged."""
    put(tmp_path, ("right", "off"))
    axes = {"rows": {"type": "var"}, "start": {"type": "var"}}
    inputs = {"x": {"shape": ["rows", "8"], "dtype": "float32"}, "shift": {"shape": None, "dtype": "float32"}}
    out = {"out": {"shape": ["rows", "8"], "dtype": "float32"}}
    whole = {"axes": axes, "inputs": inputs, "outputs": out, "custom_inputs_entrypoint": "make"}
    custom = {name: {"type": "custom"} for name in inputs}
    for name, code in (("drawn", DRAWN), ("faulty", DRAWN.replace('given["start"]', '1 / (given["start"] - 3)'))):
        folder = tmp_path / "there" / name
        folder.mkdir()
        (folder / "definition.json").write_text(json.dumps({"name": name, "reference": code, **whole}))
        each = [{"axes": {"rows": 5, "start": start}, "inputs": custom} for start in (2, 3)]
        (folder / "workload.jsonl").write_text("\n".join(map(json.dumps, each)) + "\n")
        put_solution(tmp_path, f"to {name}", name, "def run(x, shift):\n    return x + shift")
    status, told = answer("compare", *BOTH, "--device", "cpu", "--rounds", "2")
    found = {one["solution"]: one for one in told["verdicts"]}
    verdicts = {"right": "right", "off": "wrong", "to drawn": "right", "to faulty": "refused"}
    assert {name: one["verdict"] for name, one in found.items()} == verdicts, found
    assert status == 1 and "division by zero" in found["to faulty"]["reason"]
    assert found["to drawn"]["right_on"] == 2
    forget_operation("drawn", "faulty")


BROKEN = {key: value for key, value in DEFINITION.items() if key != "reference"}
CACHE = "def run(x):\n    x[0] = 0\n    return x"
DRAWS = "import torch\ndef run(x):\n    return torch.nn.Dropout(0.5)(3 * x)"
DYING = "import os\ndef run(x):\n    return (3 * x.float()).bfloat16() if len(x) != 8 else os._exit(3)"


@pytest.mark.parametrize(
    ("reference", "verdict", "reason", "asked"),
    [
        (CACHE, "undecidable", "its reference changes its input x", 1),
        (DRAWS, "undecidable", "its reference draws random numbers", 1),
        (DYING, "refused", "ended with status 3", 4),
        (None, "refused", "it lacks 'reference'", 0),
    ],
)
def test_a_reference_s_fault_is_no_solution_s(reference, verdict, reason, asked, judged, tmp_path, monkeypatch) -> None:
    """It is told on the first workload that shows it, since each may cost minutes, whatever was right before.

    The one of 8 rows is not timed: there the reference has no row of its own.
    """
    put(tmp_path, ["right"], (4, 8, 16, 32, 64))
    definition = {**DEFINITION, "reference": reference} if reference else BROKEN
    (tmp_path / "there" / "d.json").write_text(json.dumps(definition))
    races, race = list[Any](), folder.FolderJudge.judge_on_workload
    monkeypatch.setattr(folder.FolderJudge, "judge_on_workload", lambda *given: races.append(given) or race(*given))
    status, found = judged()
    assert status == 2 and found["verdict"] == verdict and reason in found["reason"] and len(races) == asked


@pytest.mark.parametrize(("unlucky", "verdict", "asked"), [(1, "right", 2), (9, "undecidable", 3)])
def test_an_unlucky_draw_is_judged_again(unlucky, verdict, asked, judged, tmp_path, monkeypatch) -> None:
    put(tmp_path, ["right"], (4, 4))
    draws, raced = list[Any](), folder.FolderJudge.race_ids

    def drawn(crew: Any, guard: Any, problem: Any, ids: Sequence[str], rounds: int) -> Any:
        draws.append(ids)
        words = "its own reference is wrong here, so nothing is decided: out"
        row = {"outcome": "refused", "kind": "undecidable", "reason": words}
        lost = [{**row, "id": id} for id in ids]
        return ([], lost) if len(draws) <= unlucky else raced(crew, guard, problem, ids, rounds)

    monkeypatch.setattr(folder.FolderJudge, "race_ids", drawn)
    _, found = judged()
    assert found["verdict"] == verdict and len(draws) == asked and len({*map(tuple, draws)}) == 1


def test_a_narrow_table_names_definitions(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    reason = "doubled_by_a_long_name total: 1 of 4 elements wrong; first at (0,): got 1, expected 2"
    case = {"dtype": "float32", "axes": {"rows": 4}, "place": [0], "got": "1", "expected": "2"}
    row = {"solution": "a", "verdict": "wrong", "kind": "wrong value", "reason": reason, "case": case}
    names = [f"{number}_doubled_by_a_long_and_winding_name" for number in range(2)]
    verdicts.print_verdicts([{**row, "definition": name} for name in names], 9, 9)
    shown = capsys.readouterr().out
    assert "speedup  " not in shown and "published  " not in shown
    for name, short in verdicts.short_names(names).items():
        assert len(short) == 30 and shown.count(f"{short}  a") == 1 and f"{name}/a: wrong, wrong value" in shown
    assert "at (0,) of total got 1, expected 2" in " ".join(shown.split())
    alike = [f"a_long_author_{number}_of_a_solution_with_the_same_end" for number in range(2)]
    right = {**row, "definition": "d", "verdict": "right", "undecidable_on": 1, "workloads": 3}
    verdicts.print_verdicts([{**right, "solution": name, "inputs_from_files": ["x"]} for name in alike], 9, 9)
    shown = capsys.readouterr().out
    assert all(shown.count(name) == 1 for name in alike) and shown.count("undecidable on 1 of 3") == 2
    assert "(safetensors) are drawn at random" in " ".join(shown.split())


def test_who_does_not_start_costs_no_other(tmp_path, monkeypatch, capsys) -> None:
    put(tmp_path, ["right", "off"], (2,))
    guard = folder.Guard

    def start(device, modules, **given):
        if any("off" in Path(name).stem for name in modules):
            raise folder.GuardError("hung")
        return guard(device, modules, **given)

    monkeypatch.setattr(folder, "Guard", start)
    how = folder.JudgingOptions(tmp_path / "there", tmp_path / "mine", "cpu", 60.0, 2, "hot")
    assert folder.judge_solution_folder(how, "", None, resume=False, json=True) == 0
    found = {one["solution"]: one for one in json.loads(capsys.readouterr().out)["verdicts"]}
    assert {name: one["verdict"] for name, one in found.items()} == {"right": "right", "off": "refused"}
    assert "hung" in found["off"]["reason"]


def test_slow_solutions_are_judged_on_what_is_timed(judged, tmp_path, monkeypatch) -> None:
    put(tmp_path, ["right"], (2, 4, 8, 16, 32))
    for longest, right_on in ((folder.LONGEST, 5), (0.0, 3)):
        monkeypatch.setattr(folder, "LONGEST", longest)
        status, found = judged()
        assert status == 0 and (found["right_on"], found["timed_on"], found["workloads"]) == (right_on, 3, 5)


def test_what_does_not_go_together_is_refused(kernelzoo, tmp_path) -> None:
    put(tmp_path)
    for options, words in (
        (BOTH[:2], "need both folders"),
        (("--resume", "torch/softmax/eager"), "need both folders"),
        ((*BOTH, "--shape", "4x4"), "leave out what else does"),
        ((*BOTH, "--resume"), "-o FILE"),
        (("--definitions", "mine", "--solutions", "mine"), "no definition"),
    ):
        done = kernelzoo("compare", *options)
        assert done.returncode == 2 and words in done.stderr, done.stderr
