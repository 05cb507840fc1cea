"""``--gpus``: work spread over several GPUs, here pretended ones: each measuring process tells what it is bound to."""

import json
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from kernelzoo.cli.guards import MeasuringProcesses
from kernelzoo.measure.gpus import Gpu, GpusError, parse_gpus
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.worker_process import GuardError

TWO = {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
SHORT = ("bench", "--op", "min", "--dtype", "float32", "--cache", "hot", "--rounds", "6")
BENCH = (*SHORT, "-o", "r.json", "--gpus")


def results(path: Path) -> dict[int, set[tuple[int, str]]]:
    """The GPUs of each problem in a file, by its rows. No result stands there twice."""
    infos = [entry["extra_info"] for entry in json.loads(path.read_text())["benchmarks"]]
    keys = [(info["id"], *info["shape"]) for info in infos]
    assert len(keys) == len(set(keys))
    found = defaultdict(set)
    for info in infos:
        found[info["shape"][0]].add((info["gpu"]["index"], info["gpu"]["uuid"]))
    return found


def test_a_free_gpu_takes_the_next_problem_and_no_race_is_split(answer, stub, tmp_path) -> None:
    shapes = "8x4,2x4,3x4,4x4,5x4,6x40"  # the first takes longer than all others together
    status, told = answer(*BENCH, "all", "--shape", shapes, **TWO)
    assert status == 0 and told["results"] == 12
    by_problem = results(tmp_path / "r.json")
    (slow,) = by_problem.pop(8)
    assert list(by_problem.values()) == [{(0, "GPU-a"), (1, "GPU-b")} - {slow}] * 5
    workers = json.loads((tmp_path / "r.json").read_text())["kernelzoo"]["workers"]
    assert workers == told["workers"] and [worker["check"]["ratio"] for worker in workers] == [1, 1]
    assert [worker["gpu"] for worker in workers] == [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]
    assert {problem["gpu"]["uuid"] for problem in told["problems"]} == {"GPU-a", "GPU-b"}
    status, told = answer(*BENCH, "1", "--shape", f"{shapes},9x4", "--resume", **TWO)
    assert status == 0 and told["results"] == 14 and results(tmp_path / "r.json")[9] == {(1, "GPU-b")}


def test_results_of_a_card_that_is_slower_are_flagged(kernelzoo, stub, tmp_path) -> None:
    done = kernelzoo(*BENCH, "0,1", "--shape", "8x4,2x4,3x4,4x4", STUB_SLOW="GPU-b", **TWO)
    assert done.returncode == 0, done.stderr
    assert "GPU 1 takes 5.0% longer than the fastest card on min-float32-8x4: its results are flagged" in done.stderr
    assert "[4/4]" in done.stderr and "on GPU 0: 2 measured" in done.stderr and "on GPU 1: 2 measured" in done.stderr
    entries = json.loads((tmp_path / "r.json").read_text())["benchmarks"]
    flags = {(entry["extra_info"]["gpu"]["index"], *entry["extra_info"]["flags"]) for entry in entries}
    assert flags == {(0,), (1, "slower card")}
    done = kernelzoo(*SHORT, "--gpus", "0,1", "--shape", "2x4,3x4", **TWO)
    assert "2 cards agree within 0.0% on min-float32-3x4" in done.stderr


def test_a_worker_that_is_gone_for_good_costs_its_own_problem(answer, stub, tmp_path) -> None:
    working = stub.read_text()
    stub.write_text(working.replace("time.sleep(600)", "os.rename(sys.argv[0], 'gone'); os._exit(3)"))
    shapes = "7x4,2x4,3x4,4x4,5x40"
    status, told = answer(*BENCH, "all", "--shape", shapes, **TWO)
    assert status == 2 and "the measuring process did not start" in told["error"]
    before = results(tmp_path / "r.json")
    assert sorted(before) == [2, 3, 4, 5] and len(set.union(*before.values())) == 1
    stub.write_text(working.replace("time.sleep(600)", "pass"))
    status, told = answer(*BENCH, "all", "--shape", shapes, "--resume", **TWO)
    assert status == 0 and sorted(results(tmp_path / "r.json")) == [2, 3, 4, 5, 7]


def test_every_command_names_the_gpus_and_uses_them_all(answer, stub) -> None:
    both = [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]
    status, told = answer("verify", "--gpus", "all", "--op", "min", **TWO)
    assert status == 0 and list(told["results"]) == ["torch/min/auto", "torch/min/eager"]
    assert sorted((row["gpu"] for row in told["results"].values()), key=str) == both
    status, told = answer("fuzz", "--gpus", "all", "--cases", "200", "--jobs", "1", "--op", "min", **TWO)
    assert status == 1 and sorted(told["gpus"], key=str) == both
    assert [failure["gpu"] for failure in told["failures"]] == both[1:] * len(told["failures"])
    dtypes = ("--dtype", "float32,int8")
    status, told = answer("accuracy", "--gpus", "0,1", "--op", "min", *dtypes, "--jobs", "1", **TWO)
    assert {row["gpu"]["uuid"] for row in told["rows"]} == {"GPU-a", "GPU-b"}


def test_gpus_are_numbered_as_torch_numbers_them(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-x,-1,5")
    assert parse_gpus("all") == [Gpu(0, "3"), Gpu(1, "GPU-x")]
    assert parse_gpus("1") == [Gpu(1, "GPU-x")] and parse_gpus("") == []
    for text, told in (("2", "no GPU 2 here; there are 2"), ("0,0", "each number once"), ("-1", "each number once")):
        with pytest.raises(GpusError, match=told):
            parse_gpus(text)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(GpusError, match="there is no GPU here"):
        parse_gpus("all")


def test_two_workers_on_one_gpu_are_refused(answer, stub) -> None:
    status, told = answer(*SHORT, "--gpus", "all", CUDA_VISIBLE_DEVICES="GPU-a,GPU-a")
    assert status == 2 and "two workers were given one GPU, GPU-a" in told["error"]


def test_jobs_are_spread_over_the_gpus(stub) -> None:
    gpus = [Gpu(0, "GPU-a"), Gpu(1, "GPU-b")]
    with MeasuringProcesses(lambda gpu: Guard(gpu=gpu), gpus) as guards:
        assert [guards.count_processes(jobs, tasks) for jobs, tasks in ((1, 9), (3, 9), (3, 1))] == [2, 3, 1]
        together = threading.Barrier(3)
        assert len(list(guards.run_tasks(range(3), lambda guard, task: [together.wait(60)], 3))) == 3
        assert sorted(guard.about.gpu["uuid"] for guard in guards._guards) == ["GPU-a", "GPU-a", "GPU-b"]
        assert len(guards.gpus) == 2


def test_a_gpu_that_is_not_here_is_not_replaced_by_the_host() -> None:
    with pytest.raises(GuardError, match="device 'cuda' can't be used"):
        Guard(gpu=Gpu(0, "GPU-of-nobody"))
