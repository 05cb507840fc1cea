"""Results on disk: whole at any time, gone on with where that is honest, in a layout that others read."""

import gzip
import json
import os
from pathlib import Path

import pytest
import torch

import kernelzoo
from kernelzoo import files, measure
from kernelzoo.measure import Problem, record, schema
from kernelzoo.measure.record import Record, RecordError

CPU = torch.device("cpu")
PROBLEMS = (Problem("softmax", (16, 33), "float32"), Problem("min", (16, 33), "float32", 0))


def entries(problem: Problem) -> list[record.Json]:
    implementation = kernelzoo.implementation(f"torch/{problem.op}/eager")
    measured = measure.race(problem, [implementation], CPU, rounds=3)
    return [record.entry(m, "cpu", None, "a test") for m in measured.values()]


@pytest.mark.parametrize("name", ["results.json", "results.json.gz"])
def test_grows_and_resumes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / name
    first = Record(path, "a machine")
    ids = ["torch/softmax/eager", "torch/softmax/naive"]
    assert first.missing(PROBLEMS[0], ids) == ids
    refused = record.failure(PROBLEMS[0], "torch/softmax/naive", "refused", "it would not")
    first.add(entries(PROBLEMS[0]), [refused])
    second = Record(path, "a machine", resume=True)
    assert second.missing(PROBLEMS[0], [*ids, "cpu/softmax/auto"]) == ["cpu/softmax/auto"]
    assert second.missing(PROBLEMS[1], ["torch/min/eager"]) == ["torch/min/eager"]
    second.add(entries(PROBLEMS[1]), [])
    raw = path.read_bytes()
    held = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    assert [e["extra_info"]["id"] for e in held["benchmarks"]] == ["torch/softmax/eager", "torch/min/eager"]
    assert held["kernelzoo"] == {"format": schema.FORMAT, "failed": [refused]}
    assert sorted(path.parent.iterdir()) == [path]  # nothing is left beside it

    from kernelzoo.report.reading import load

    (group,) = load([path]).groups
    assert {row.id for row in group.rows} == {"torch/softmax/eager", "torch/min/eager"}


def test_starts_anew_unless_told_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    Record(path, "a machine").add(entries(PROBLEMS[0]), [])
    assert Record(path, "a machine").entries == []
    assert len(Record(path, "a machine", resume=True).entries) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not JSON", "is not JSON"),
        ("{}", "no results file"),
        ('{"kernelzoo": {"format": 999, "failed": []}, "benchmarks": []}', "reads formats up to 1"),
    ],
)
def test_refuses_what_it_can_not_go_on_with(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(RecordError, match=words):
        Record(path, "a machine", resume=True)
    assert path.read_text() == content


def test_refuses_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    Record(path, "a machine").add(entries(PROBLEMS[0]), [])
    with pytest.raises(RecordError, match=r"measured on 'a machine', this is 'another'"):
        Record(path, "another", resume=True)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    files.write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_entries_are_those_of_pytest_benchmark() -> None:
    """Its own statistics of the same samples say the same."""
    stats = pytest.importorskip("pytest_benchmark.stats", reason="pytest-benchmark is not installed")
    (entry,) = entries(PROBLEMS[0])
    theirs = stats.Stats()
    for sample in entry["stats"]["data"]:
        theirs.update(sample)
    expected = theirs.as_dict()
    assert set(expected) | {"data", "iterations"} == set(entry["stats"])
    for field in ("min", "max", "mean", "stddev", "median", "rounds", "total", "ops"):
        assert entry["stats"][field] == pytest.approx(expected[field])
