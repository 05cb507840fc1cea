"""How a sweep may end, and what two of them do to one file; tests/cli/test_bench.py has the kill."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import interruptible
import pytest

from kernelzoo import cli, files, registry
from kernelzoo.cli import measuring, tune
from kernelzoo.cli.guards import MeasuringProcesses
from kernelzoo.cli.recording import Recording
from kernelzoo.measure import first_call
from kernelzoo.measure.first_call import FirstCall
from kernelzoo.measure.record import Record, RecordError
from kernelzoo.tables import Gpu

COMMAND = ("bench", "--op", "min", "--dtype", "float32", "--cache", "hot", "--rounds", "3", "-o")


@pytest.fixture
def bench(stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """``kernelzoo bench`` in this process, over a process that measures nothing. A problem of 7 rows hangs."""
    monkeypatch.chdir(tmp_path)

    def run(*options: str, shapes: str = "4x4,5x4") -> int:
        command = [*COMMAND, "r.json", "--shape", shapes, *options]
        monkeypatch.setattr(sys, "argv", ["kernelzoo", *command])
        return cli.main(command)

    return run


SWEEP = """
import sys
from kernelzoo import cli
from kernelzoo.measure import worker_process
worker_process.command = lambda program: [sys.executable, "-S", "stub.py"]
sys.argv = ["kernelzoo", *sys.argv[1:]]
sys.exit(cli.main())
"""


@pytest.fixture
def ignoring() -> Iterator[None]:
    """As in the background of a script, under nohup: SIGINT and SIGHUP are ignored, here and by what is started."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("ignoring")
def test_what_a_test_interrupts_is_started_as_from_a_terminal() -> None:
    asked = "import signal; print(*(signal.getsignal(n).__class__.__name__ for n in (signal.SIGINT, signal.SIGHUP)))"
    for command, told in ((interruptible.python(), "builtin_function_or_method"), ([sys.executable], "Handlers")):
        said = subprocess.run([*command, "-c", asked], check=True, capture_output=True, text=True).stdout
        assert said.split() == [told, "Handlers"]


@pytest.mark.usefixtures("ignoring")
def test_a_sweep_in_the_background_is_ended_by_what_it_does_not_ignore(bench) -> None:
    """It goes on after what nohup and a script's background have it ignore."""
    command = [sys.executable, "-c", SWEEP, *COMMAND, "r.json", "--shape", "4x4,7x4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sweep:
        assert sweep.stderr is not None and "[1/2]" in sweep.stderr.readline()  # it hangs in the second
        for number in (signal.SIGINT, signal.SIGHUP):
            sweep.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            sweep.wait(0.3)
        sweep.send_signal(signal.SIGTERM)
        assert sweep.wait(60) == 130
    assert len(json.loads(Path("r.json").read_text())["benchmarks"]) == 2


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_sweep_that_is_ended_in_order_says_how_to_go_on(bench, end, capsys) -> None:
    command = interruptible.python("-c", SWEEP, *COMMAND, "r.json", "--shape", "4x4,7x4")
    sweep = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert sweep.stderr is not None and "[1/2]" in sweep.stderr.readline()  # it hangs in the second
    assert bench(shapes="4x4") == 2  # there already, or claimed: not written over either way
    assert bench("--resume") == 2 and "another process is writing to r.json" in capsys.readouterr().err
    before = Path("r.json").read_bytes()
    sweep.send_signal(end)
    out, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, err
    assert "interrupted after 1 of 2 problems; r.json has what was measured; to continue: kernelzoo bench" in err
    assert "2 results in r.json" in out
    given = shlex.split(err.strip().splitlines()[-1].partition("to continue: ")[2])
    assert given == ["kernelzoo", *COMMAND, "r.json", "--shape", "4x4,7x4", "--resume"]
    assert Path("r.json").read_bytes() == before and len(json.loads(before)["benchmarks"]) == 2
    assert bench("--resume") == 0
    assert len(json.loads(Path("r.json").read_text())["benchmarks"]) == 4
    assert [name for name in os.listdir() if "partial" in name or "lock" in name] == []


def interrupts(self: MeasuringProcesses, tasks: Iterable[Any], do: Callable[..., Any], processes: int) -> Iterator[Any]:
    """``MeasuringProcesses.run_tasks``, where Ctrl-C comes after the first task."""
    for task in tasks:
        yield from ((self.first, task, result) for result in do(self.first, task))
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "told", "rows"),
    [
        ("fuzz torch/min/* --cases 9 --seed 3", "9 of 18 cases; kept in r.json; --seed 3 draws the same again", 2),
        ("accuracy torch/min/* --seed 3", "1 of 10 groups of implementations; kept in r.json; --seed", 2),
        ("verify torch/min/*", "1 of 2 implementations; nothing else is kept", None),
        ("compare torch/min/eager --shape 4x4,5x4 --rounds 1", "1 of 2 problems; kept in r.json", None),
        ("bench --op min --first-call --backend torch", "1 of 6 rows; kept in r.json", 1),
        ("list", "", None),
    ],
)
def test_ctrl_c_says_what_is_kept(command, told, rows, stub, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MeasuringProcesses, "run_tasks", interrupts)
    races, calls = measuring.measure_plan, FirstCall("torch/min/auto", "long rows", "float32", "1x1", "1x1", "failed")

    def one_race(*given: Any) -> Iterator[Any]:
        yield next(races(*given))
        raise KeyboardInterrupt

    def one_call(*given: Any, **more: Any) -> Iterator[FirstCall]:
        yield calls
        raise KeyboardInterrupt

    def nothing(*given: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "measure_plan", one_race)
    monkeypatch.setattr(first_call, "first_calls", one_call)
    if command == "list":
        monkeypatch.setattr(registry, "implementations", nothing)
    output = ["-o", "r.json"] if "r.json" in told else []
    assert cli.main([*command.split(), *output]) == 130
    said = capsys.readouterr()
    assert said.err.strip().splitlines()[-1].startswith(f"interrupted after {told}" if told else "interrupted")
    if output:
        kept = json.loads(Path("r.json").read_text())
        assert rows is None or (len(kept["rows"]) == rows and kept["interrupted"])
    assert cli.main([*command.split(), "--json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert document.get("interrupted") or document["error"] == "interrupted"


def test_ctrl_c_of_tune_says_which_tables_are_stored(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    about = SimpleNamespace(device_name="a stub", versions={})
    guards = SimpleNamespace(first=SimpleNamespace(about=about))
    guards.run_tasks = lambda tasks, do, processes: interrupts(guards, tasks, lambda guard, task: (), processes)
    bar = SimpleNamespace(set_total=lambda steps: None, hide_while_printing=nullcontext)
    record = Recording("kernelzoo-tune/1")
    session = tune.TuningSession(guards, 1, bar, Gpu("NVIDIA Toy 1", "9.9", 7), 3, 60.0, record)  # type: ignore[arg-type]
    assert session.tune({"declared": [{}, {}], "unavailable": {}}, ["float32"], tmp_path / "r.json", json=False) == 130
    assert capsys.readouterr().err.strip() == f"interrupted after 0 of 2 tables; kept: {tmp_path / 'r.json'}"


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
def test_a_disk_that_fills_up_ends_it_with_what_there_is(bench, fault, monkeypatch, capsys) -> None:
    sync, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 2:  # the first file and its folder
            raise OSError(fault, os.strerror(fault))
        sync(descriptor)

    monkeypatch.setattr(files.os, "fsync", full)
    assert bench("--json") == 2
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert told["results"] == 2 and os.strerror(fault) in told["error"]
    assert (
        f"error: r.json can't be written: {os.strerror(fault)}; it is complete except for the last 2 results"
        in said.err
    )
    assert said.err.rstrip().endswith("--resume")
    assert len(json.loads(Path("r.json").read_text())["benchmarks"]) == 2
    monkeypatch.setattr(files.os, "fsync", sync)
    assert bench("--resume") == 0
    assert len(json.loads(Path("r.json").read_text())["benchmarks"]) == 4


def test_a_device_that_is_gone_for_good_ends_it_with_what_there_is(bench, stub, capsys) -> None:
    """The process that should replace the one that hung does not start."""
    stub.write_text(stub.read_text().replace("time.sleep(600)", "os.rename('stub.py', 'gone'); os._exit(3)"))
    assert bench(shapes="4x4,7x4,5x4") == 2
    said = capsys.readouterr().err
    assert "error: the measuring process did not start" in said and said.rstrip().endswith("--resume")
    assert len(json.loads(Path("r.json").read_text())["benchmarks"]) == 2


def test_results_of_other_versions_or_rounds_are_not_mixed(bench, monkeypatch, capsys) -> None:
    assert bench(shapes="4x4") == 0
    before = Path("r.json").read_bytes()
    assert bench("--resume", "--rounds", "4") == 2
    assert "r.json holds races of 3 rounds, and --rounds asks for 4" in capsys.readouterr().err
    monkeypatch.setenv("STUB_TORCH", "3")
    assert bench("--resume") == 2
    assert "r.json was measured with torch 2, and this is torch 3; name another file" in capsys.readouterr().err
    monkeypatch.delenv("STUB_TORCH")
    for change in ({"format": 2}, {"format": "1"}, {"failed": 7}):
        document = json.loads(before)
        document["kernelzoo"] |= change
        Path("r.json").write_text(json.dumps(document))
        changed = Path("r.json").read_bytes()
        assert bench("--resume") == 2 and "error: r.json can't be resumed" in capsys.readouterr().err
        assert Path("r.json").read_bytes() == changed


def test_a_stranger_s_texts_do_not_reach_the_terminal(bench, capsys) -> None:
    assert bench(shapes="4x4") == 0
    document = json.loads(Path("r.json").read_text())
    for where, key in (
        (document["machine_info"], "device"),
        (document["benchmarks"][0]["extra_info"]["versions"], "torch"),
    ):
        kept = where[key]
        where[key] = "\x1b]0;evil\x07[red]\u202e"
        Path("r.json").write_text(json.dumps(document))
        capsys.readouterr()
        assert bench("--resume") == 2
        said = capsys.readouterr()
        assert "evil" in said.err and not set("\x1b\x07\u202e") & set(said.out + said.err)
        where[key] = kept


def test_a_record_that_can_t_be_written_keeps_what_it_had(tmp_path) -> None:
    record = Record(tmp_path / "r.json", "a")
    (tmp_path / "r.json").mkdir()
    with pytest.raises(RecordError, match="it is no regular file"):
        record.add([], [{"id": "a/min/b"}])
    assert record.failed == []
