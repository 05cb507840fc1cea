"""What the guard does when the process that measures does its worst. No kernel is needed for that: here the process is
a few lines of Python, which answer as the real one does until they don't. tests/cli has kernels that go wrong."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelzoo.errors import CacheWarning
from kernelzoo.measure import Problem, worker_process
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.measurement import UNJUDGED
from kernelzoo.measure.worker_process import DiedError, GuardError, _explaining_lines

pytestmark = pytest.mark.slow

PROBLEM = Problem("min", (4, 4), "float32")

WORKER = """
import json, os, signal, sys, time
replies = int(sys.argv[1])
def say(**reply):
    os.write(replies, json.dumps({"number": request["number"], **reply}).encode() + b"\\n")
def entry(id, **changed):
    facts = {"id": id, **{name: request["problem"][name] for name in ("op", "shape", "dim", "dtype")}}
    return {"extra_info": {**facts, "cache": request["cache"], **changed}, "stats": {"data": [1.0]}}
about = {"device": "cpu", "device_name": "a stub", "versions": {}, "summaries": {}}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "open":
        say(done=about)
        continue
    if request["do"] == "confirm":
        say(done={})
        continue
    entries, failed = [], []
    for id in request["ids"]:
        say(stage="check", id=id)
        entries.append(entry(id))
        exec(ACTS.get(id, ""))
        say(stage="time", id=id, turn=[1.0, 1])
    say(done={"entries": entries, "failed": failed})
"""

UNLIKE = "the answer does not match the request: "
ELSE = "something else wrote to the answer pipe"

ACTS = {
    "segfaults": ("os.kill(os.getpid(), signal.SIGSEGV)", "the process was killed by SIGSEGV"),
    "aborts": ("os.abort()", "the process was killed by SIGABRT"),
    "leaves": ("os._exit(0)", "the process ended with status 0"),
    "odd_signal": ("os.kill(os.getpid(), 40)", "the process was killed by signal 40"),
    "hangs": ("time.sleep(600)", "hung in check of hangs: no sign of life for 6 s"),
    "deaf": ("[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(600)", "hung in check of deaf"),
    "stops": ("os.kill(os.getpid(), signal.SIGSTOP)", "hung in check of stops"),
    "closes": ("os.closerange(0, 100); time.sleep(600)", "the process closed its answer pipe and went on"),
    "closes_and_leaves": ("os.closerange(3, 100); os._exit(7)", "the process ended with status 7"),
    "forks": ("os.fork() or time.sleep(600); os._exit(5)", "the process ended with status 5"),
    "floods": (
        "[os.write(2, b'x' * 2**20) for _ in range(60)]; os.write(2, b'\\nthe last words\\n'); os._exit(6)",
        "the process ended with status 6: ",
    ),
    "garbles": (
        "os.write(replies, b'\\xff\\xfe nonsense\\n')",
        r"something else wrote to the answer pipe: b'\xff\xfe nonsense'",
    ),
    "mistypes": ("say(done=7)", ELSE),
    "lists": ("os.write(replies, b'[]\\n')", ELSE),
    "nests": ("os.write(replies, b'[' * 100_000 + b'\\n')", ELSE),
    "endless": ("while True: os.write(replies, b'x' * 2**16)", "something else wrote to the answer pipe: b'xxx"),
    "warns": ("say(warning='a folder of somebody else')", ""),
    "halves": ("os.write(replies, b'{\"done\": '); os._exit(8)", "the process ended with status 8"),
    "answers": ("say(done={'entries': [entry(i) for i in request['ids']], 'failed': []})", ELSE),
    "doubles": ("say(stage='check', id=id, number=7)", ELSE),
    "guesses": ("say(done={}, number=7)", ELSE),
    "blames": ("say(lost='fine', reason='it was fine', id='fine'); time.sleep(600)", "fine"),
    "loses": ("entries.pop()", f"{UNLIKE}rows of ['fine', 'good']"),
    "repeats": ("entries.append(entry(id))", f"{UNLIKE}rows of ['fine', 'good', 'repeats', 'repeats']"),
    "swaps": ("entries[-1] = entry('another')", f"{UNLIKE}rows of ['another', 'fine', 'good']"),
    "moves": (
        "entries[-1] = entry(id, shape=[4, 5])",
        f'{UNLIKE}moves on {{"dim": -1, "dtype": "float32", "op": "min", "shape": [4, 5]}}',
    ),
    "warms": ("entries[-1] = entry(id, cache='hot')", f"{UNLIKE}warms with 1 samples of a hot cache"),
    "invents": ("entries[-1]['stats']['data'] = [0.0]", f"{UNLIKE}invents with 1 samples of a cold cache"),
    "empties": ("entries[-1] = {}", f"{UNLIKE}it lacks 'extra_info'"),
    "excuses": (
        "failed.append({**entries.pop()['extra_info'], 'outcome': 'measured', 'reason': ''})",
        f"{UNLIKE}outcomes {{'measured'}}",
    ),
}
"""What a worker does, and how what is said of it begins; "" for what costs nothing."""


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A guard of the stub."""
    script = tmp_path / "worker.py"
    script.write_text(f"ACTS = { {name: act for name, (act, _) in ACTS.items()} }\n{WORKER}")
    monkeypatch.setattr(worker_process, "command", lambda program: [sys.executable, "-S", str(script)])
    monkeypatch.setattr(worker_process, "_ENDING", 0.5)
    monkeypatch.setattr(worker_process, "_LONGEST", 2**20)
    with Guard("cpu", patience=3) as made:
        yield made


def group(pid: int) -> list[int]:
    """The processes of a process group that are not ended yet."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        state, _, pgrp = rest.split()[:3]
        if int(pgrp) == pid and state != "Z":
            found.append(int(name.split()[0]))
    return found


@pytest.mark.parametrize("act", [name for name, (_, words) in ACTS.items() if words])
def test_it_costs_its_own_row(guarded: Guard, act: str) -> None:
    first = guarded._process.pid
    started = time.monotonic()
    # Whose doing a wrong answer at the end is, nobody tells: it is held to be that of the last in hand.
    words = ACTS[act][1]
    ids = ["fine", "good", act] if words.startswith(UNLIKE) else ["fine", act, "good"]
    done, failed = guarded.race(PROBLEM, ids)
    assert [entry["extra_info"]["id"] for entry in done] == ["fine", "good"]
    (lost,) = failed
    assert (lost["id"], lost["outcome"]) == (act, "failed")
    assert lost["reason"].startswith(words)
    assert time.monotonic() - started < 30
    assert group(first) == []  # nothing that it started is left


# What a kernel does once, as it is timed.
REASONS = {
    "raises": "a shape",
    "blames": "raised DeviceLostError: it was another",
    "forks": "left child processes behind: ",
    "clones": "left child processes behind: ",
    "full": "out of memory: CUDA error",
}

TIMED = """
import ctypes, os, time
import torch
import kernelzoo
from kernelzoo.errors import DeviceLostError, ShapeError

count = {}

def registered(act):
    def bind(x, out):
        def launch():
            torch.amin(x, 1, out=out)
            count[act] = count.get(act, 0) + 1
            if count[act] == 2300:
                act()
        return launch
    kernelzoo.register("timed", "min", act.__name__)(bind)

@registered
def forks():
    os.fork() or time.sleep(60)

@registered
def clones():
    ctypes.CDLL(None).fork() or time.sleep(60)

@registered
def raises():
    raise ShapeError("a shape")

@registered
def blames():
    raise DeviceLostError("torch/min/eager", "it was another")

@registered
def full():
    raise RuntimeError("CUDA error: out of memory")

@registered
def fine():
    pass
"""


def test_where_nobody_was_running_none_is_to_blame(guarded: Guard, monkeypatch) -> None:
    def dies(*request: object, **how: object) -> None:
        raise DiedError("", "hung")

    monkeypatch.setattr(guarded, "_ask", dies)
    assert [row["kind"] for row in guarded.race(PROBLEM, ["fine", "good"])[1]] == [UNJUDGED] * 2


def test_a_start_that_failed_is_made_again(guarded: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Guard) -> None:
        self._stop()
        raise GuardError("the measuring process did not start")

    with monkeypatch.context() as once:
        once.setattr(Guard, "restart", killed)
        with pytest.raises(GuardError, match="did not start"):
            guarded.race(PROBLEM, ["leaves", "good"])
    (row,), failed = guarded.race(PROBLEM, ["good"])
    assert row["extra_info"]["id"] == "good" and not failed


def test_what_a_kernel_does_as_it_is_timed_costs_no_other_row(tmp_path: Path) -> None:
    module = tmp_path / "timed.py"
    module.write_text(TIMED)
    ids = ["torch/min/eager", "timed/min/fine", *(f"timed/min/{name}" for name in REASONS)]
    with Guard("cpu", [str(module)], patience=60) as real:
        done, failed = real.race(PROBLEM, ids, rounds=2)
        assert sorted(entry["extra_info"]["id"] for entry in done) == sorted(ids[:2]), failed
        lost = {row["id"].split("/")[2]: row for row in failed}
        assert sorted(lost) == sorted(REASONS)
        for name, words in REASONS.items():
            assert words in lost[name]["reason"]
            assert (lost[name]["outcome"] == "refused") == (name == "full")
        process = real._process
        for rows in (8, 12):  # each of these has its own answer, and none twice
            done, failed = real.race(Problem("min", (rows, 4), "float32"), ids[:2], rounds=2, cache="hot")
            assert [entry["extra_info"]["shape"] for entry in done] == [[rows, 4]] * 2 and not failed
        assert real._process is process


def test_what_tests_fork_is_a_child_as_what_users_start_is(pytestconfig: pytest.Config) -> None:
    """Which it begins two seconds before."""
    with Guard("cpu") as real:
        judge = Path(f"/proc/{real._process.pid}")
        assert ("warm.py" in (judge / "cmdline").read_text()) is not pytestconfig.getoption("--cold")
        parent, group = (judge / "stat").read_text().rpartition(")")[2].split()[1:3]
        assert (int(parent), int(group)) == (os.getpid(), real._process.pid)
        assert len(real.race(PROBLEM, ["torch/min/eager"], rounds=2, cache="hot")[0]) == 1
        real._process.kill()
        assert real._process.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("said", ["", "ACTIVE"])
def test_the_judge_s_threads_do_not_spin(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a runner's wait as the user says."""
    if said:
        monkeypatch.setenv(worker_process.WAITING, said)
    else:
        monkeypatch.delenv(worker_process.WAITING, raising=False)
    with Guard("cpu") as real:
        assert real._process is not None
        place = Path(f"/proc/{real._process.pid}")
        runners = {int(one) for task in (place / "task").iterdir() for one in (task / "children").read_text().split()}
        policies = [
            dict(pair.partition("=")[::2] for pair in (Path(f"/proc/{one}/environ")).read_text().split("\0"))
            for one in (real._process.pid, *runners)
        ]
    found = [one.get(worker_process.WAITING) for one in policies]
    assert found[0] == "PASSIVE" and (said or None) in found[1:], found


def test_a_flood_is_drained_and_its_end_is_kept(guarded: Guard) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _, (lost,) = guarded.race(PROBLEM, ["floods"])
    assert lost["reason"].endswith("the last words")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB; 60 MiB were printed


def test_what_the_user_is_to_know_is_passed_on(guarded: Guard) -> None:
    with pytest.warns(CacheWarning, match="a folder of somebody else"):
        done, failed = guarded.race(PROBLEM, ["warns"])
    assert len(done) == 1 and not failed


def test_a_second_opinion_that_can_t_be_had_is_none(guarded: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guarded.cross_check(PROBLEM, ["aborts"], lambda stage, id: None) == {}
    monkeypatch.setattr(worker_process, "command", lambda program: [sys.executable, "-S", "-c", "raise SystemExit(9)"])
    assert guarded.cross_check(PROBLEM, ["fine"], lambda stage, id: None) == {}
    assert guarded.race(PROBLEM, ["fine"])[0]


def test_files_stay_open_no_longer_than_a_guard(guarded: Guard) -> None:
    def held() -> int:
        return len(os.listdir("/proc/self/fd"))

    guarded.race(PROBLEM, ["garbles"])
    time.sleep(0.1)
    before = held()
    for _ in range(4):
        guarded.race(PROBLEM, ["garbles"])
    time.sleep(0.1)
    assert held() <= before


def test_a_process_that_never_starts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for script, words in (
        ("raise SystemExit(9)", "ended with status 9"),
        ("import os, sys; os.write(int(sys.argv[1]), b'?\\n'); import time; time.sleep(60)", "something else wrote"),
    ):
        monkeypatch.setattr(
            worker_process, "command", lambda program, script=script: [sys.executable, "-S", "-c", script]
        )
        with pytest.raises(GuardError, match=words):
            Guard("cpu")


# The real process ends with the one that asked, even out of C code that holds Python's lock and closed all files.
HOLDS = """
import ctypes, os, sys
from kernelzoo.measure import answering
answering._exit_when_guard_ends(int(sys.argv[1]))
if os.fork() == 0:
    while True: pass
os.write(1, b"x")
os.closerange(0, 100)
ctypes.PyDLL(None).sleep(600)
"""


def test_whatever_it_does_it_ends_with_the_guard() -> None:
    alive, lifeline = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(alive)], pass_fds=[alive], stdout=subprocess.PIPE, start_new_session=True
    )
    os.close(alive)
    assert process.stdout is not None and process.stdout.read(1) == b"x"
    process.stdout.close()
    until = time.monotonic() + 5
    while len(group(process.pid)) > 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(group(process.pid)) == 2  # it, and what it started; who watches is in a group of its own
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    os.close(lifeline)
    assert process.wait(10) == -signal.SIGKILL
    until = time.monotonic() + 5
    while group(process.pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert group(process.pid) == []


def test_the_real_process_is_what_the_system_ends_first(tmp_path: Path) -> None:
    """And data that no memory holds is a refusal, which costs no process."""
    with Guard("cpu") as real:
        process = real._process
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n"
        done, (refused,) = real.race(Problem("min", (2**40, 2**10), "float32"), ["torch/min/eager"])
        assert (done, refused["outcome"]) == ([], "refused")
        told = r"this device's memory does not hold the problem's data: the race asks for \S+ GB of memory"
        assert re.match(told, refused["reason"])
        assert real._process is process
        json.dumps(refused)


def test_the_exception_is_told_whatever_is_printed_behind_it() -> None:
    lines = ["Traceback (most recent call last):", 'File "a.py", line 3, in f', "return g(x)"]
    ended = [*lines, "torch.OutOfMemoryError: CUDA out of memory. Tried", "[W1129 CudaIPCTypes.cpp:16] Producer"]
    assert _explaining_lines(ended) == [ended[3], ended[1]]
