"""A runner in a process of its own, and what it does beside the judge's own work."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelzoo import registry
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.judge.apart import RunnerProcess
from kernelzoo.measure.judge.entrant import Entrant, LocalRunner
from kernelzoo.measure.judge.race import _Race
from kernelzoo.measure.worker_process import DiedError

DEFINITIONS = Path(__file__).parents[2] / "examples" / "definitions"
ENDS = "import time; time.sleep(0.3); print('ended')"


def stops(process: int) -> bool:
    """Whether a process is stopped within a second."""
    for _ in range(100):
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


def test_a_runner_answers_beside_the_judges_work_and_stops_no_compiler() -> None:
    runner = RunnerProcess.start_all("cpu", {"": []}, 60.0, None)[0][""]
    try:
        (process,) = runner.processes
        assert stops(process)
        with runner.answer_in_background({"do": "tables", "backends": ["torch"], "ops": []}):
            with subprocess.Popen([sys.executable, "-c", ENDS], stdout=subprocess.PIPE, text=True) as compiler:
                assert compiler.communicate(timeout=60)[0] == "ended\n"
            assert not stops(process)
        assert stops(process)
        answer = runner._answer({"do": "tables", "backends": ["torch"], "ops": []}, lambda stage, id: None, 60.0)
        assert answer["unavailable"] == {}
    finally:
        runner.close()


def test_a_runner_that_dies_meanwhile_is_noticed_by_the_next_request() -> None:
    runner = RunnerProcess.start_all("cpu", {"": []}, 60.0, None)[0][""]
    try:
        with runner.answer_in_background({"do": "tables", "backends": ["torch"], "ops": []}):
            assert runner._process is not None
            runner._process.kill()
        with pytest.raises(DiedError):
            runner.ask("run_empty_turn")
        assert runner.broken
    finally:
        runner.close()


LEAVES = """
import subprocess, sys, torch, kernelzoo

@kernelzoo.register("mine", "softmax", "leaves")
def leaves(x, out):
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print(left.pid, file=open(PATH, "a"))
    return lambda: torch.softmax(x, 1, out=out)
"""


def test_nothing_that_a_check_starts_stays_behind(tmp_path: Path) -> None:
    file, numbers = tmp_path / "leaves.py", tmp_path / "numbers"
    file.write_text(LEAVES.replace("PATH", repr(str(numbers))), encoding="utf-8")
    with Guard("cpu", [str(file)], patience=60) as guard:
        guard.verify("mine/softmax/leaves", [], cases=["float32-3x17"])
        found = numbers.read_text().split()
        assert found and not any(map(alive, found))


COMPILES = """
import subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)", "/torch/_inductor/compile_worker/"]
print(subprocess.Popen(command, start_new_session=True).pid, file=open(PATH, "a"))
"""
GUARDED = """
import os, signal, sys
from kernelzoo.measure.guard import Guard
with Guard("cpu", [sys.argv[1]], patience=60):
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_no_compiler_stays_behind(how: str, tmp_path: Path) -> None:
    """They are stopped with their runner, and would never hear that it has ended."""
    file, numbers = tmp_path / "compiles.py", tmp_path / "numbers"
    file.write_text(COMPILES.replace("PATH", repr(str(numbers))), encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", GUARDED, str(file), how], timeout=120, capture_output=True)
    assert (done.returncode == 0) == (how == "closed"), done.stderr
    found = numbers.read_text().split()
    until = time.monotonic() + 10
    while any(map(alive, found)) and time.monotonic() < until:
        time.sleep(0.05)
    assert found and not any(map(alive, found))


def test_no_folder_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes that are killed, as the judge and its runners are."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    given = [str(DEFINITIONS / name) for name in ("rms_norm_h512.json", "rms_norm_torch.json")]
    with Guard("cpu", given, patience=60) as guard:
        assert "mine/rms_norm_h512/rms_norm_torch" in guard.about.summaries
        assert [*tmp_path.glob("kernelzoo-*/kernelzoo-*")]
    assert [*tmp_path.glob("kernelzoo-*")] == []


def alive(process: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.parametrize(
    ("late", "after", "words"),
    [
        ([0.0, 5e-3] * 3 + [5e-3] * 2, [2e-5] * 20, "its work ran on the GPU while its process was stopped"),
        ([5e-3] * 5, [5e-3] * 20, "other programs use the GPU: measure again"),
        ([5e-3] * 4 + [2e-5] * 20 + [5e-3] * 4, [], ""),
    ],
)
def test_what_works_on_a_gpu_while_it_is_stopped_is_ended(late: list[float], after: list[float], words: str) -> None:
    answers = iter(late + after)
    data: Any = SimpleNamespace(is_gpu=True, time_one_element_launch=lambda: next(answers))
    runner = RunnerProcess.start_all("cpu", {"": []}, 60.0, None)[0][""]
    entrant = Entrant(registry.implementation("torch/softmax/eager"), runner)
    made = _Race("device", [entrant], [runner], data, lambda stage, id: None, 3, LocalRunner(torch.device("cpu")))
    try:
        with pytest.raises(DiedError, match=words) if words else contextlib.nullcontext():
            for _ in late:
                made.gpu_is_busy(entrant)
        assert runner.broken == bool(words) and next(answers, None) is None
        if words:
            with pytest.raises(DiedError, match="SIGKILL"):
                runner.ask("run_empty_turn")
    finally:
        runner.close()


RUNS_ON = """
import os, subprocess, sys, threading
from kernelzoo.measure.runner import Runner
command = [sys.executable, "-c", FORKS, "/torch/_inductor/compile_worker/"]
helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def work():
    while True:
        pass

def empty(self):
    helper.stdin.write(b"x")
    helper.stdin.flush()
    helper.stdout.read(1)
    threading.Thread(target=work, daemon=True).start()

Runner.run_empty_turn = empty
"""
FORKS = """
import os, time
os.read(0, 1)
if os.fork() == 0:
    os.write(1, b"x")
time.sleep(600)
"""


@pytest.fixture
def runs_on(tmp_path: Path) -> Iterator[RunnerProcess]:
    (file := tmp_path / "runs_on.py").write_text(RUNS_ON.replace("FORKS", repr(FORKS)), encoding="utf-8")
    runner = RunnerProcess.start_all("cpu", {"": [str(file)]}, 60.0, None)[0][""]
    yield runner
    runner.close()


def test_what_runs_on_after_an_answer_is_told(runs_on: RunnerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may let it go on, while the judge looks through what it has started."""
    found = runs_on._all_process_ids

    def slow() -> list[int]:
        os.kill(runs_on.processes[0], signal.SIGCONT)
        time.sleep(0.1)
        return found()

    runs_on.ask("run_empty_turn")
    assert runs_on.run_seconds_since_stop() < 0.05
    monkeypatch.setattr(runs_on, "_all_process_ids", slow)
    runs_on._pause_processes()
    assert runs_on.run_seconds_since_stop() > 0.005


def test_what_a_compiler_starts_is_no_stray(runs_on: RunnerProcess) -> None:
    """Torch's begins its pool when it is ready, perhaps in a turn."""
    (helper,) = runs_on._stray_processes()
    runs_on.ask("run_empty_turn")
    assert len(runs_on._stray_processes()) == 2 and runs_on.end_strays() == []
    assert len(runs_on._stray_processes()) == 2 and helper in runs_on._stray_processes()
    runs_on._before = []
    assert len(runs_on.end_strays()) == 2
