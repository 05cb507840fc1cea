"""``kernelzoo compare``: side by side, and against an older file."""

import json
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kernelzoo import registry
from kernelzoo.cli import comparing, measuring
from kernelzoo.measure import record

NIGHTLY = partial(pytest.param, marks=pytest.mark.nightly)
COMMITS = ("compare", "--op", "softmax", "--module", "mine.py", "--allowed", "90%", "--against-commit")


def test_torch_and_the_host_side_by_side(kernelzoo, answer, small) -> None:
    pytest.importorskip("numba", reason="the cpu backend needs Numba")
    status, told = answer("compare", "torch", "cpu", "--op", "softmax", *small, "--rounds", "7")
    assert status == 0
    (problem,) = told["problems"]
    assert (problem["clock"], problem["cache"], problem["baseline"]) == ("wall", "hot", "torch/softmax/eager")
    rows = {row["id"]: row for row in problem["rows"]}
    assert set(rows) == {"torch/softmax/eager", "torch/softmax/auto", "cpu/softmax/auto"}
    cpu = rows["cpu/softmax/auto"]
    low, high = cpu["ratio_interval"]
    assert low <= cpu["ratio"] <= high and cpu["verdict"] in ("FASTER", "SLOWER", "SAME", "UNCLEAR")
    assert cpu["quantiles_us"]["p10"] <= cpu["median_us"] <= cpu["quantiles_us"]["p90"]
    assert cpu["interval_us"][0] <= cpu["median_us"] <= cpu["interval_us"][1]
    assert cpu["first_call_ms"] > 0 and cpu["submit_us"] is None
    assert rows["torch/softmax/eager"]["ratio"] == 1


def test_baseline_files_and_several_problems(kernelzoo, small, tmp_path) -> None:
    command = ("compare", "torch/min/auto", "--op", "min", "--baseline", "torch/eager", *small)
    done = kernelzoo(*command, "--shape", "9x8x7", "--dtype", "int32", "--dim", "1", "-o", "kept.json")
    assert done.returncode == 0, done.stderr
    assert "time / torch/min/eager" in done.stdout and "min-int32-9x8x7-dim1" in done.stdout
    entries = json.loads((tmp_path / "kept.json").read_text())["benchmarks"]
    assert len(entries) == 8  # two implementations, shapes and dtypes
    assert kernelzoo(*command, "-o", "kept.json").returncode == 2


def test_ratios_are_to_what_a_user_would_call_without_us() -> None:
    known = dict.fromkeys(("cpu/min/auto", "torch/min/auto", "torch/min/eager", "mine/min/all"), "")
    usual = registry.baseline("min")
    assert comparing.choose_baseline(known, "", "min", ["torch/min/auto", "cpu/min/auto"]) == usual == "torch/min/eager"
    assert comparing.choose_baseline(known, "mine/all", "min", ["cpu/min/auto"]) == "mine/min/all"
    assert comparing.choose_baseline({"a/min/b": ""}, "", "min", ["a/min/b"]) == "a/min/b"  # where there is no baseline


def test_python_gets_the_rows_of_the_command(answer, stub, monkeypatch) -> None:
    named, how = ("torch/eager", "torch/auto"), ("--cache", "hot", "--rounds", "9")
    status, told = answer("compare", *named, "--op", "min", "--shape", "4x5x6", "--dim", "1", "--dtype", "fp16", *how)
    (problem,) = told["problems"]
    facts = {key: fact for key, fact in problem.items() if key != "rows"}
    ask = partial(comparing.compare, *named, op="min", shapes=[(4, 5, 6)], dim=1, dtypes=["fp16"], cache="hot")
    rows = ask(rounds=9)
    assert status == 0 and rows == [facts | row for row in problem["rows"]] and rows[1]["verdict"] == "SAME"
    assert "torch/min/auto" in rows._repr_html_()
    monkeypatch.setattr(measuring, "measure_plan", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ask()


def rewritten(path: Path, to: Path, factor: float, **info: Any) -> Path:
    """A results file with times of that many times the median, hardly any noise, no flags, and other facts."""
    document = json.loads(path.read_text())
    for entry in document["benchmarks"]:
        stats = entry["stats"]
        stats["data"] = [stats["median"] * factor * (1 + i * 1e-4) for i in range(len(stats["data"]))]
        entry["extra_info"].update({"flags": [], **info})
    to.write_text(json.dumps(document))
    return to


def test_against_an_older_file(kernelzoo, small, tmp_path) -> None:
    """The older times are made up, a thousand times faster, so that this machine's noise decides nothing."""
    command = ("compare", "torch/eager", "torch/auto", "--op", "softmax", *small, "--rounds", "9")
    done = kernelzoo(*command, "-o", "old.json")
    assert done.returncode == 0, done.stderr
    fast = rewritten(tmp_path / "old.json", tmp_path / "fast.json", 1e-3)
    done = kernelzoo(*command, "--against", fast, "--allowed", "90%")
    assert done.returncode == 1
    assert "fast.json, 90.0% slower allowed" in done.stdout and done.stdout.count("SLOWER") >= 2


def test_what_an_older_file_can_say(kernelzoo, answer, stub, small, tmp_path) -> None:
    """Over times that were not measured: one microsecond each."""
    command = ("compare", "torch/eager", "torch/auto", "--op", "min", *small, "--rounds", "9")
    done = kernelzoo(*command, "-o", "old.json")
    assert done.returncode == 0, done.stderr
    old = tmp_path / "old.json"

    status, told = answer(*command, "--against", rewritten(old, tmp_path / "slow.json", 1e3))
    assert status == 0 and len(told["against"]["rows"]) == 2
    assert all(0 < row["ratio"] < 0.5 and not row["slower"] and not row["refusal"] for row in told["against"]["rows"])

    other = rewritten(old, tmp_path / "other.json", 1.0, device="a toaster")
    done = kernelzoo(*command, "--against", other)
    assert done.returncode == 2 and "the file has a toaster by the wall clock" in " ".join(done.stdout.split())

    stub.write_text(stub.read_text().replace('"eager"', '"compile"'))
    status, told = answer("compare", "torch/compile", "--op", "min", *small, "--against", old)
    assert status == 2 and told["against"]["rows"][0]["refusal"] == "the file has no such row"


def test_a_noisy_baseline_is_not_blessed(answer, stub, small, tmp_path) -> None:
    status, _ = answer("compare", "torch/eager", "--op", "min", *small, "-o", "old.json")  # three samples
    assert status == 0
    status, told = answer("compare", "torch/eager", "--op", "min", *small, "--against", "old.json")
    assert status == 2 and "too noisy to compare with: 3 samples" in told["against"]["rows"][0]["refusal"]


@pytest.mark.parametrize(("factor", "slower", "unclear"), [(0.5, True, False), (1.0, False, True), (2.0, False, False)])
def test_disturbed_rows_are_compared(answer, stub, small, tmp_path, factor, slower, unclear) -> None:
    """By their own noise: slower is what is apart sample by sample."""
    command = ("compare", "torch/eager", "--op", "min", *small, "--rounds", "9")
    assert answer(*command, "-o", "old.json")[0] == 0
    old = rewritten(tmp_path / "old.json", tmp_path / "flagged.json", 0.9 * factor, flags=["disturbed"])
    document = json.loads(old.read_text())
    document["benchmarks"][0]["stats"]["data"][0] = 0.97e-6 * factor
    old.write_text(json.dumps(document))
    status, told = answer(*command, "--against", old)
    (row,) = told["against"]["rows"]
    assert (row["slower"], row["unclear"], row["refusal"]) == (slower, unclear, "") and status == slower


def test_a_result_that_is_gone_is_a_regression(answer, small, bad, tmp_path) -> None:
    command = ("compare", "bad/garbage", "--op", "softmax", *small, "--module", bad)
    status, _ = answer(*command, "-o", "old.json")
    assert status == 0
    text = bad.read_text()
    assert "inner()" in text
    bad.write_text(text.replace("inner()", "raise torch.OutOfMemoryError('none left there')"))
    status, told = answer(*command, "--against", "old.json")
    assert status == 1 and told["against"]["rows"][0]["refusal"] == "has a result in the file, and none now"


def test_what_is_wrong_on_special_values_is_timed_on_request(kernelzoo, answer, small, tmp_path) -> None:
    module = tmp_path / "drops.py"
    module.write_text(DROPS_NAN)
    command = ("drops/only", "--op", "softmax", *small, "--module", module)
    done = kernelzoo("compare", *command)
    assert done.returncode == 1 and "WRONG drops/softmax/only" in done.stdout
    status, told = answer("compare", *command, "--waive", "drops/*/*", "-o", "drops.json")
    row = next(row for row in told["problems"][0]["rows"] if row["id"] == "drops/softmax/only")
    assert status == 0 and row["outcome"] == "measured" and "in rows of" in row["breaks"]
    assert row["flags"][0] == "breaks the contract"
    done = kernelzoo(
        "bench", "--op", "softmax", "--backend", "drops", *small, "--module", module, "--waive", "drops/*/*"
    )
    assert done.returncode == 0 and "BREAKS THE CONTRACT, timed on request: drops/softmax/only" in done.stdout
    assert "† (1 of 2 results) breaks the contract" in kernelzoo("report", "drops.json").stdout
    assert kernelzoo("compare", *command, "--waive", "torch/softmax/eager").returncode == 2


DROPS_NAN = """
import kernelzoo, torch

@kernelzoo.register("drops", "softmax", "only")
def only(x, out):
    return lambda: (out.copy_(torch.softmax(x.nan_to_num(-80), 1)), None)[1]
"""


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A repository in whose second commit a kernel does its work sixty times."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    git = partial(record.git, tmp_path, "-c", "user.name=a", "-c", "user.email=a@b")
    git("init")
    for times in (1, 60):
        launch = f"return lambda: [out.copy_(torch.softmax(x.double(), 1)) for _ in range({times})] and None\n"
        (tmp_path / "mine.py").write_text(DROPS_NAN.partition("return")[0] + launch)
        git("add", "mine.py")
        git("commit", "-m", "one")
    return git


@pytest.mark.parametrize(("commit", "slower"), [("HEAD~1", True), NIGHTLY("HEAD", False)])
def test_the_present_against_a_commit(answer, git, small, commit, slower) -> None:
    status, told = answer(*COMMITS, commit, *small, "--rounds", "7")
    assert (status == 1) is told["against"]["rows"][0]["slower"] is slower and "\n" not in git("worktree", "list")


def test_ctrl_c_leaves_no_worktree(start, git, small, tmp_path) -> None:
    with start(*COMMITS, "HEAD~1", *small) as running:
        assert running.stderr.readline().startswith("measuring HEAD~1 (")
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert "\n" not in git("worktree", "list") and not list(tmp_path.glob("kernelzoo-*"))


def test_what_has_no_older_commit(kernelzoo, process, git, tmp_path) -> None:
    """Kernelzoo itself is in this repository, with a commit that can only say so."""
    place, own = tmp_path / "kernelzoo", ("compare", "torch", "--op", "min", "--against-commit", "HEAD")
    place.mkdir()
    (place / "__init__.py").write_text("exit('error: the old one')")
    git("add", "kernelzoo")
    git("commit", "-m", "another")
    shutil.copytree(Path(record.__file__).parents[1], place, dirs_exist_ok=True)
    done = [process(*own, PYTHONPATH=str(tmp_path))]
    git("rm", "-r", "--cached", "--force", "kernelzoo")
    done += [process(*own, PYTHONPATH=str(tmp_path)), kernelzoo(*COMMITS[:-1], "--against-commit=-x")]
    done += [kernelzoo(*COMMITS, "HEAD", "--module", module) for module in ("kernelzoo/nn.py", "/dev/null")]
    told = ("measured: the old one", "is no git checkout", "reference: -x", "did not exist at HEAD", "not a git repo")
    assert all(words in one.stderr and one.returncode == 2 for words, one in zip(told, done, strict=True)), done
