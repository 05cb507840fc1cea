"""Results on disk: whole at any time, gone on with where that is honest, in a layout that others read."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
import torch

import kernelzoo
from kernelzoo import files, measure
from kernelzoo.measure import Problem, record, schema
from kernelzoo.measure.record import Record, RecordError

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
PROBLEMS = (Problem("softmax", (16, 33), "float32"), Problem("min", (16, 33), "float32", 0))


def entries(problem: Problem) -> list[record.Json]:
    implementation = kernelzoo.implementation(f"torch/{problem.op}/eager")
    measured = measure.race(problem, [implementation], CPU, rounds=3)
    return [record.make_benchmark_entry(m, "cpu", None, "a test") for m in measured.values()]


@pytest.mark.parametrize("name", ["results.json", "results.json.gz"])
def test_grows_and_resumes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / name
    first = Record(path, "a machine")
    ids = ["torch/softmax/eager", "torch/softmax/naive"]
    assert first.ids_to_run(PROBLEMS[0], ids) == ids
    refused = record.failure(PROBLEMS[0], "torch/softmax/naive", "refused", "it would not")
    first.add(entries(PROBLEMS[0]), [refused])
    second = Record(path, "a machine", resume=True)
    assert second.ids_to_run(PROBLEMS[0], [*ids, "cpu/softmax/auto"]) == ["cpu/softmax/auto"]
    assert second.ids_to_run(PROBLEMS[1], ["torch/min/eager"]) == ["torch/min/eager"]
    second.add(entries(PROBLEMS[1]), [])
    raw = path.read_bytes()
    held = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    assert [e["extra_info"]["id"] for e in held["benchmarks"]] == ["torch/softmax/eager", "torch/min/eager"]
    assert held["kernelzoo"] | {"source": 0} == {"format": schema.FORMAT, "failed": [refused], "source": 0}
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


def test_refuses_another_kernelzoo_and_an_edited_module(tmp_path: Path) -> None:
    path, module, other = tmp_path / "results.json", tmp_path / "mine.py", tmp_path / "other.py"
    module.write_text("a = 1")
    other.write_text("b = 1")
    Record(path, "a machine", modules=[module]).add(entries(PROBLEMS[0]), [])
    resumed = Record(path, "a machine", resume=True, modules=[other])  # another one is no change of the first
    resumed.add(entries(PROBLEMS[1]), [])
    before = path.read_bytes()
    for edited in (module, other):
        kept = edited.read_text()
        edited.write_text("c = 1")
        with pytest.raises(RecordError, match=f"measured with another {edited.name}, or before it was edited"):
            Record(path, "a machine", resume=True, modules=[edited])
        edited.write_text(kept)
    assert len(Record(path, "a machine", resume=True, modules=[module, other]).entries) == 2
    for sources in ({"sha256": "0", "modules": {}}, None):  # None: a file of an older kernelzoo, which has no digest
        document = json.loads(before)
        document["kernelzoo"]["source"] = sources
        if sources is None:
            del document["kernelzoo"]["source"]
        document["commit_info"]["id"] = "0123456789abcdef"
        path.write_text(json.dumps(document))
        with pytest.raises(RecordError, match=r"by another kernelzoo \(at 0123456789, this is at .*edited; name"):
            Record(path, "a machine", resume=True)


def test_a_kernelzoo_that_was_edited_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    source = tmp_path / "kernels" / "softmax.cu"
    source.write_text("1")
    monkeypatch.setattr(record, "_HOME", tmp_path)
    digest = record._digest_own_files.__wrapped__
    first = digest()
    assert digest() == first
    source.write_text("2")
    assert digest() != first
    source.write_text("1")
    source.rename(source.with_name("min.cu"))
    assert digest() != first


def test_the_commit_is_kernelzoo_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the working directory, nor that of a repository around an installation, nor a hook's."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    home = tmp_path / "kernelzoo"
    home.mkdir()
    (home / "__init__.py").write_text("")
    (tmp_path / "notes").write_text("")
    git("init", "-q")
    git("add", "notes")
    git("commit", "-qm", "first")
    monkeypatch.setattr(record, "_HOME", home)
    assert record.commit() == {"id": "", "dirty": False}
    git("add", "kernelzoo")
    git("commit", "-qm", "second")
    own = {"id": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "notes").write_text("edited, and no part of kernelzoo")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path.parent)
    assert record.commit() == own
    (home / "__init__.py").write_text("edited")
    assert record.commit() == own | {"dirty": True}


def test_a_link_is_followed_to_the_one_file(tmp_path: Path) -> None:
    path, link = tmp_path / "real" / "results.json.gz", tmp_path / "link.json"
    Record(path, "a machine").add(entries(PROBLEMS[0]), [])
    link.symlink_to(path)
    Record(link, "a machine", resume=True).add(entries(PROBLEMS[1]), [])
    assert link.is_symlink() and files.read_json(link) == files.read_json(path)
    assert len(files.read_json(path)["benchmarks"]) == 2
    for one, other in ((path, link), (link, path)):
        lock = files.hold_file_lock
        with lock(one), pytest.raises(files.FileError, match="another process is"), lock(other):
            raise AssertionError("claimed twice")
    assert sorted(tmp_path.iterdir()) == [link, path.parent] and list(path.parent.iterdir()) == [path]


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
