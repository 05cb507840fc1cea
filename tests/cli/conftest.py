"""The command line as its users run it; tiny problems, on torch and files of kernels."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interruptible
import pytest

from kernelzoo.cli import main
from kernelzoo.measure import worker_process

# Enough to prove the wiring: small, hot (one set of data instead of thousands), three rounds.
SMALL = ("--shape", "32x64", "--dtype", "float32", "--cache", "hot", "--rounds", "3", "--device", "cpu")

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here starts the program."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(**changes: str) -> dict[str, str]:
    """One thread, whose times on a busy machine are not those of a spinning team; output of a known width."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "COLUMNS": "160", **changes}


@pytest.fixture
def kernelzoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, which has torch already, and in a folder of its own. What it runs kernels
    in are other processes all the same."""

    def run(*arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
        given, out, err = list(map(str, arguments)), io.StringIO(), io.StringIO()
        with monkeypatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.chdir(tmp_path)
            patch.setattr(sys, "argv", ["kernelzoo", *given])
            for name, value in environment(**changes).items():
                patch.setenv(name, value)
            status = main(given)
        return subprocess.CompletedProcess(given, status, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """Run the command line in a process of its own: what imports a language, or is told what by its environment."""

    def run(*arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kernelzoo", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(**changes), capture_output=True, text=True, timeout=300
        )

    return run


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the command line, to be interrupted."""

    def popen(*arguments: object, **changes: str) -> subprocess.Popen[str]:
        command, env = interruptible.python("-m", "kernelzoo", *map(str, arguments)), environment(**changes)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=tmp_path, env=env, stdout=pipe, stderr=pipe, text=True)

    return popen


@pytest.fixture
def small() -> tuple[str, ...]:
    return SMALL


@pytest.fixture
def answer(kernelzoo: Run) -> Callable[..., tuple[int, Any]]:
    """Run a command with --json: the exit status, and the document that must be all of standard output."""

    def run(*arguments: object, **changes: str) -> tuple[int, Any]:
        done = kernelzoo(*arguments, "--json", **changes)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


@pytest.fixture
def raced() -> Callable[..., dict[str, Any]]:
    """An entry of a results file, as a race hands it back. A keyword replaces a fact."""

    def make(id: str, data: list[float], **facts: Any) -> dict[str, Any]:
        told = dict.fromkeys(("of_limit", "submit_us", "first_call_ms", "cupti_us"))
        told |= {"id": id, "race": "r", "gb_per_s": 1.0, "flags": [], "device": "a card", "clock": "device"}
        told |= {"clock_detail": "graph", "cache": "cold", "repeated_rounds": 0}
        return {"extra_info": told | facts, "stats": {"data": data}}

    return make


STUB = """
import json, os, sys, time
def say(**reply):
    os.write(int(sys.argv[1]), json.dumps({**reply, "number": request["number"]}).encode() + b"\\n")
def entry(id, problem, rounds, cache):
    backend, op, variant = id.split("/")
    facts = {"device": "a stub", "versions": VERSIONS, "clock": "wall", "clock_detail": "none", "cache": cache}
    facts |= {"submit_us": None, "ceiling_gb_per_s": None, "floor_us": None, "shape_set": request["label"]}
    facts |= {"samples": rounds}
    facts |= {"gb_per_s": 1.0, "of_limit": None, "first_call_ms": 1.0, "cupti_us": None, "flags": [], "race": "r"}
    facts |= {"id": id, "backend": backend, "variant": variant, "bytes": 8, "repeated_rounds": 0}
    facts |= {name: problem[name] for name in ("op", "shape", "dtype", "dim")}
    return {"param": id, "stats": {"median": SECONDS, "data": [SECONDS] * rounds}, "extra_info": facts}
GPU = os.environ.get("CUDA_VISIBLE_DEVICES") or None
SECONDS = 1.05e-6 if GPU and GPU == os.environ.get("STUB_SLOW") else 1e-6
ANSWERS = {
    "verify": lambda r: {"passed": 1, "refused": 0, "no_room": 0, "left_out": 0, "findings": [], "unavailable": ""}
    | {"weak": [], "at_fault": {}, "undecidable": {}},
    "fuzz": lambda r: {"right": len(r["cases"]), "wrong": [[0, "a stub"]][:GPU == "GPU-b"], "unavailable": ""},
    "accuracy": lambda r: {"rows": [{"id": id, "op": r["op"], "dtype": r["dtype"], "unavailable": "a stub", "wrong": 0}
    | {"same_bits": True} for id in r["ids"]]},
}
VERSIONS = {"python": "3", "torch": os.environ.get("STUB_TORCH", "2")}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "open":
        ids = [f"torch/min/{v}" for v in ("auto", "eager")]
        known = dict.fromkeys(ids, "")
        say(done={"device": "cpu", "device_name": "a stub", "gpu": GPU, "versions": VERSIONS, "summaries": known})
    elif request["do"] == "confirm":
        say(done={})
    elif request["do"] == "fuzzing_limits":
        say(done={"unavailable": "", "elements": 100, "emulator": ""})
    elif request["do"] in ANSWERS:
        time.sleep(0.2)
        say(done=ANSWERS[request["do"]](request))
    else:
        if request["problem"]["shape"][0] == 8:
            time.sleep(2)
        if request["problem"]["shape"][0] == 7:
            say(stage="check", id=request["ids"][0])
            time.sleep(600)
        for id in request["ids"] * request["rounds"]:
            say(stage="time", id=id, turn=[SECONDS, 1])
        found = [entry(id, request["problem"], request["rounds"], request["cache"]) for id in request["ids"]]
        say(done={"entries": found, "failed": []})
"""


@pytest.fixture(scope="session")
def stub_text() -> str:
    """The program of ``stub``."""
    return STUB


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process in place of the one that measures: it answers at once, and has measured nothing. A problem of 7 rows
    hangs, one of 8 takes 2 s. Where ``CUDA_VISIBLE_DEVICES`` is set, its text is the UUID of the one GPU that there is;
    that of ``STUB_SLOW`` takes 5 % longer."""
    script = tmp_path / "stub.py"
    script.write_text(STUB)
    monkeypatch.setattr(worker_process, "command", lambda program: [sys.executable, "-S", str(script)])
    return script


HEAD = """
import ctypes, os, sys, time
import torch
import kernelzoo

def fine(x, out):
    def launch():
        torch.softmax(x.float(), 1, out=out) if x.dtype == torch.float32 else out.copy_(torch.softmax(x, 1))
    return launch
"""

# How a kernel may go wrong, each in its launch, and the outcome and words that its row must have.
BAD = {
    "crashes": ("ctypes.string_at(0)", "failed", "SIGSEGV"),
    "hangs": ("time.sleep(600)", "failed", "hung in check of bad/softmax/hangs"),
    "leaves": ("os._exit(3)", "failed", "ended with status 3"),
    "exits": ("sys.exit('a kernel that ends the process')", "failed", "a kernel that ends the process"),
    "starves": ("raise MemoryError('none left')", "failed", "MemoryError: none left"),
    "starves_device": ("raise torch.OutOfMemoryError('none left there')", "refused", "out of memory: none left there"),
    "is_killed": ("os.kill(os.getpid(), 9)", "failed", "SIGKILL"),
    "zeros": ("out.zero_()", "wrong", "elements wrong"),
}


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A file of kernels that do what no kernel should; and one that is right, and noisy on both streams."""
    text = HEAD
    for name, (act, _, _) in BAD.items():
        text += f"""
@kernelzoo.register("bad", "softmax", "{name}")
def {name}(x, out):
    def launch():
        {act}
    return launch
"""
    text += """
@kernelzoo.register("bad", "softmax", "garbage")
def garbage(x, out):
    inner = fine(x, out)
    def launch():
        print('{"done": "garbage"}', flush=True)
        os.write(1, b"\\xff\\xfe}\\n")
        os.write(2, b"more of it\\n")
        inner()
    return launch
"""
    path = tmp_path / "bad_kernels.py"
    path.write_text(text)
    return path


@pytest.fixture
def outcomes() -> dict[str, tuple[str, str]]:
    """What must become of each of the bad kernels."""
    return {f"bad/softmax/{name}": (outcome, words) for name, (_, outcome, words) in BAD.items()}
