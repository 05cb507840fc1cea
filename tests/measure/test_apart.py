"""A runner in a process of its own, and what it does beside the judge's own work."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelzoo.measure.judge.apart import Apart
from kernelzoo.measure.worker_process import UNSET, DiedError

ENDS = "import time; time.sleep(0.3); print('ended')"


def stops(process: int) -> bool:
    """Whether a process is stopped within a second."""
    for _ in range(100):
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


def test_a_runner_answers_beside_the_judges_work_and_stops_no_compiler() -> None:
    lost = dict[int, str]()
    (runner,) = Apart.together("cpu", [[]], 60.0, lost, UNSET)
    try:
        (process,) = runner.processes
        assert stops(process)
        with runner.meanwhile({"do": "tables", "backends": ["torch"], "ops": []}):
            with subprocess.Popen([sys.executable, "-c", ENDS], stdout=subprocess.PIPE, text=True) as compiler:
                assert compiler.communicate(timeout=60)[0] == "ended\n"
            assert not stops(process)
        assert stops(process)
        answer = runner._answer({"do": "tables", "backends": ["torch"], "ops": []}, lambda stage, id: None, 60.0)
        assert answer["unavailable"] == {}
    finally:
        runner.close()


def test_a_runner_that_dies_meanwhile_is_noticed_by_the_next_request() -> None:
    (runner,) = Apart.together("cpu", [[]], 60.0, {}, UNSET)
    try:
        with runner.meanwhile({"do": "tables", "backends": ["torch"], "ops": []}):
            assert runner._process is not None
            runner._process.kill()
        with pytest.raises(DiedError):
            runner.ask("empty")
        assert runner.broken
    finally:
        runner.close()
