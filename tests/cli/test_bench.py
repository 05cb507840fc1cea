"""``kernelzoo bench``: every result kept as it comes, whatever the kernels and the user do meanwhile."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernelzoo import measure
from kernelzoo.children import child_processes_of


def load(path: Path) -> Any:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def test_bad_kernels_cost_their_own_rows(answer, bad, small, outcomes, tmp_path) -> None:
    path = tmp_path / "results.json.gz"
    options = ("--op", "softmax", "--backend", "bad,torch", "--variant", ",".join(i.split("/")[2] for i in outcomes))
    status, told = answer(
        "bench", *small, *options, "--variant", "eager,garbage", "--module", bad, "--patience", "8", "-o", path
    )
    assert status == 1
    rows = {row["id"]: row for row in told["problems"][0]["rows"]}
    assert set(rows) == {*outcomes, "torch/softmax/eager", "bad/softmax/garbage"}
    for id, (outcome, words) in outcomes.items():
        assert rows[id]["outcome"] == outcome and words in rows[id]["reason"], rows[id]
    for id in ("torch/softmax/eager", "bad/softmax/garbage"):
        assert rows[id]["outcome"] == "measured" and rows[id]["samples"] == 3
    assert rows["bad/softmax/garbage"]["ratio"] > 0
    document = load(path)
    assert {f["id"]: f["outcome"] for f in document["kernelzoo"]["failed"]} == {i: o for i, (o, _) in outcomes.items()}
    assert len(document["benchmarks"]) == told["results"] == 2


def test_the_file_is_one_of_pytest_benchmark_and_of_the_report(kernelzoo, small, tmp_path) -> None:
    pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
    done = kernelzoo("bench", *small, "--op", "min", "--backend", "torch", "--variant", "eager,auto", "-o", "r.json")
    assert done.returncode == 0, done.stderr
    assert "torch/min/auto" in done.stdout and "2 results in r.json" in done.stdout
    assert "wall clock: time.perf_counter around the launch, last-level cache hot" in done.stdout
    assert "[1/1] min-float32-32x64: 2 measured, 0 without a result" in done.stderr
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "r.json"]
    compared = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert compared.returncode == 0, compared.stderr
    assert "min-float32-32x64" in compared.stdout and "torch/min/eager" in compared.stdout
    reported = kernelzoo("report", "r.json", "--json")
    assert reported.returncode == 0
    (group,) = json.loads(reported.stdout)["groups"]
    assert {row["id"] for row in group["rows"]} == {"torch/min/auto", "torch/min/eager"}
    assert not list(tmp_path.glob(".*.lock"))


def test_whole_calls_stand_in_a_file_beside_launches(answer, small, tmp_path) -> None:
    """What has a time of one kind still lacks the other."""
    path = tmp_path / "both.json"
    command = ("bench", *small, "--op", "min", "--backend", "torch", "--variant", "eager,auto", "-o", path)
    for clock, wanted in (("call", ["call"]), ("device", ["wall"]), ("call", [])):
        status, told = answer(*command, "--resume", "--clock", clock)
        assert status == 0 and [problem["clock"] for problem in told["problems"]] == wanted
    infos = [entry["extra_info"] for entry in load(path)["benchmarks"]]
    assert sorted((info["clock"], info["id"].split("/")[2]) for info in infos) == [
        *(("call", "auto"), ("call", "eager"), ("wall", "auto"), ("wall", "eager"))
    ]
    assert all((info["gb_per_s"] is None) == (info["clock"] == "call") for info in infos)


def test_a_sample_is_drawn_by_its_seed(answer, stub, tmp_path) -> None:
    """The same each time, so that a run can be resumed; its results name it with its seed."""
    path = tmp_path / "sample.json"
    command = ("bench", "--op", "min", "-o", path, "--shapes")
    problems = {seed: [p.id for p in measure.problems("random:3", ("min",), seed=seed)] for seed in (4, 5)}
    for seed, wanted in ((4, problems[4]), (4, []), (5, problems[5])):
        status, told = answer(*command, "random:3", "--seed", seed, "--resume")
        assert status == 0 and [problem["problem"] for problem in told["problems"]] == wanted
    labels = [entry["extra_info"]["shape_set"] for entry in load(path)["benchmarks"]]
    assert labels == ["random:3, seed 4"] * 6 + ["random:3, seed 5"] * 6


SLOW = """
import os, time
import torch
import kernelzoo

@kernelzoo.register("slow", "softmax", "auto")
def auto(x, out, seen=set()):
    if x.shape not in seen:
        seen.add(x.shape)
        time.sleep(float(os.environ["SECONDS"]))
    def launch():
        out.copy_(torch.softmax(x, 1))
    return launch
"""


def wait_for(path: Path, process: subprocess.Popen[str], count: int) -> None:
    """Until the file holds so many results; at every look it must be whole JSON."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and len(load(path)["benchmarks"]) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("nothing was written in two minutes")


def test_a_run_that_is_killed_can_be_resumed(start, kernelzoo, small, tmp_path) -> None:
    """tests/cli/test_ends.py has the signals that it answers to."""
    path, module = tmp_path / "results.json", tmp_path / "slow.py"
    module.write_text(SLOW)
    options = ("bench", *small, "--shape", "32x96,32x128,32x160", "--op", "softmax", "--backend", "slow,torch")
    options = (*options, "--variant", "auto", "--module", module, "-o", path)
    process = start(*options, SECONDS="3")  # long enough to be ended in time on a busy machine
    wait_for(path, process, 2)
    workers = [Path("/proc", str(child)) for child in child_processes_of(process.pid)]
    assert workers
    process.kill()
    process.communicate(timeout=60)
    before = load(path)
    held = [entry["param"] for entry in before["benchmarks"]]
    assert 2 <= len(held) < 8
    deadline = time.monotonic() + 10
    while any(worker.exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(worker.exists() for worker in workers)  # the measuring process ends with the one that asked

    done = kernelzoo(*options, "--resume", "--json", SECONDS="0")
    assert done.returncode == 0, done.stderr
    assert f"holds {len(held)} results" in done.stderr
    after = load(path)
    names = [entry["param"] for entry in after["benchmarks"]]
    assert names[: len(held)] == held and len(names) == len(set(names)) == 8
    assert after["benchmarks"][: len(held)] == before["benchmarks"]
    again = json.loads(done.stdout)
    assert sum(len(problem["rows"]) for problem in again["problems"]) == 8 - len(held)

    assert kernelzoo(*options, SECONDS="0").returncode == 2  # without --resume, it is not written over
    assert load(path) == after


def test_resuming_what_is_not_ours_is_refused(answer, stub, small, tmp_path) -> None:
    path = tmp_path / "other.json"
    ours = {"machine_info": {"device": "a toaster"}, "commit_info": {}, "benchmarks": [], "datetime": "now"}
    row = {"id": "torch/min/eager", "op": "min", "shape": [32, 64], "dim": -1, "dtype": "float32", "outcome": "refused"}
    row["reason"] = "none"
    other = json.dumps({**ours, "kernelzoo": {"format": 1, "failed": [row]}})
    told_of = {'{"benchmarks": []}': "did not write it", other: "was measured on 'a toaster', this is 'a stub'"}
    for content, told in told_of.items():
        path.write_text(content)
        status, document = answer("bench", *small, "--op", "min", "--backend", "torch", "-o", path, "--resume")
        assert status == 2 and told in document["error"]
        assert path.read_text() == content


def test_nothing_to_measure_is_status_2(kernelzoo, small, tmp_path) -> None:
    done = kernelzoo("bench", *small, "--op", "min", "--backend", "cupy", "-o", "r.json", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and done.stderr.startswith("error: backend 'cupy' can't run here")
    assert done.stdout == "" and not list(tmp_path.glob("r.json*"))  # said at once, not once for each problem
    done = kernelzoo("bench", *small, "--device", "cuda:7", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and "'cuda:7' can't be used" in done.stderr


def test_where_nothing_can_be_written_nothing_is_measured(kernelzoo, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    done = kernelzoo("bench", "-o", "file/results.json")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: {str(tmp_path / 'file')!r} is no folder for 'results.json'")
