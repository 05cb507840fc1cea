"""``bench --shard K/N`` and ``merge``: parts of one sweep become one file, without a double and without a gap."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Answer = Callable[..., tuple[int, Any]]
BENCH = ("bench", "--op", "min", "--dtype", "float32", "--cache", "hot", "--rounds", "6")
SHAPES = [f"{rows}x4" for rows in (2, 3, 4, 5, 6)]


@pytest.fixture
def shard(answer: Answer, stub: Path) -> Callable[..., Any]:
    """Measure a shard into ``K.json``."""

    def run(number: int, *more: object, of: int = 3, shapes: tuple[str, ...] = tuple(SHAPES)) -> tuple[int, Any]:
        given = ("--shape", ",".join(shapes), "--shard", f"{number}/{of}", "-o", f"{number}.json")
        return answer(*BENCH, *given, *more)

    return run


def test_shards_make_the_whole_sweep(shard, answer, tmp_path) -> None:
    for number, problems in ((2, 2), (1, 2), (3, 1)):
        status, told = shard(number)
        assert status == 0 and len(told["problems"]) == problems
        document = json.loads((tmp_path / f"{number}.json").read_text())
        document["machine_info"]["device"] = f"a stub of machine {number}"
        (tmp_path / f"{number}.json").write_text(json.dumps(document))
    status, told = answer("merge", "3.json", "1.json", "2.json", "-o", "all.json.gz")
    assert (status, told["results"], told["shards"]) == (0, 10, 3)
    status, told = answer("report", "all.json.gz")
    (group,) = told["groups"]
    assert sorted(tuple(row["shape"]) for row in group["rows"]) == sorted([(n, 4) for n in (2, 3, 4, 5, 6)] * 2)
    assert answer("merge", "1.json", "2.json", "-o", "cards.html")[0] == 0  # of several machines, one by one
    assert "<html" in (tmp_path / "cards.html").read_text(encoding="utf-8")
    status, told = answer("merge", "1.json", "2.json", "3.json", "-o", "all.json.gz")
    assert status == 2 and "all.json.gz exists already; name another file" in told["error"]


def test_doubles_and_gaps_are_refused(shard, answer, tmp_path) -> None:
    def refused(*files: str) -> str:
        status, told = answer("merge", *files, "-o", "all.json")
        assert status == 2 and not (tmp_path / "all.json").exists()
        return str(told["error"])

    assert shard(1)[0] == shard(2)[0] == 0
    assert "a gap: no file holds shard 3 of 3" in refused("1.json", "2.json")
    assert shard(3)[0] == 0
    shutil.copy(tmp_path / "1.json", tmp_path / "again.json")
    assert "1.json and again.json both hold shard 1/3" in refused("1.json", "again.json", "2.json", "3.json")
    whole = json.loads((tmp_path / "1.json").read_text())
    for change, told in (
        (lambda rows: rows[:-1], "a gap: 1.json lacks 1 results, the first torch/min/"),
        (lambda rows: [*rows, rows[0]], "on float32 2x4 twice"),
        (lambda rows: [*rows, json.loads((tmp_path / "2.json").read_text())["benchmarks"][0]], "is not of shard 1/3"),
    ):
        (tmp_path / "1.json").write_text(json.dumps({**whole, "benchmarks": change(whole["benchmarks"])}))
        assert told in refused("1.json", "2.json", "3.json")
    (tmp_path / "1.json").unlink()
    assert shard(1, shapes=("2x4", "3x4", "7x8"))[0] == 0
    assert "are of different sweeps: not the same sweep" in refused("1.json", "2.json", "3.json")
    whole["kernelzoo"]["source"]["sha256"] = "0"
    (tmp_path / "1.json").write_text(json.dumps(whole))
    assert "not the same kernelzoo or --module" in refused("1.json", "2.json", "3.json")
    del whole["kernelzoo"]["shard"]
    (tmp_path / "1.json").write_text(json.dumps(whole))
    assert refused("1.json", "2.json", "3.json").endswith("1.json is no shard; kernelzoo bench --shard K/N writes one")
    (tmp_path / "1.json").write_text(json.dumps(whole).replace(whole["machine_info"]["device"], "another"))
    assert refused("1.json", "2.json").endswith("side by side: kernelzoo merge 1.json 2.json -o cards.html")


def test_a_shard_is_continued_as_that_shard(shard, answer, tmp_path) -> None:
    assert shard(1)[0] == 0
    document = json.loads((tmp_path / "1.json").read_text())
    (tmp_path / "1.json").write_text(json.dumps({**document, "benchmarks": document["benchmarks"][2:]}))
    status, told = shard(1, "--resume")
    assert status == 0 and [problem["shape"] for problem in told["problems"]] == [[2, 4]]
    shutil.copy(tmp_path / "1.json", tmp_path / "2.json")
    for more, told in (
        (("--shard", "2/3", "-o", "2.json"), "2.json holds shard 1/3 of a sweep, and this is shard 2/3 of a sweep"),
        (("-o", "2.json"), "2.json holds shard 1/3 of a sweep, and this is a whole sweep"),
        (("--shard", "1/3", "--rounds", "7", "-o", "2.json"), "races of 6 rounds"),
        (("--shard", "1/3", "--cross-check", "-o", "2.json"), "other problems or options"),
    ):
        status, document = answer(*BENCH, "--shape", ",".join(SHAPES), "--resume", *more)
        assert status == 2 and told in document["error"]
    status, document = answer(*BENCH, "--shape", ",".join(SHAPES), "--shard", "1/9")
    assert status == 2 and "no shard of 9: the sweep has 5 problems" in document["error"]
