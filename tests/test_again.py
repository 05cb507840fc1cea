"""bench/again.py: rows that are measured again stand in the record if all else is the same, and the pages say so."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
from scripts import loaded

from kernelzoo.report import sections
from kernelzoo.report.reading import load

ROOT = Path(__file__).parents[1]
again = loaded(ROOT / "bench" / "again.py")
readme = loaded(ROOT / "bench" / "readme.py")

EAGER, OURS, OLD, PLAIN = "torch/min/eager", "triton/min/auto", "cub/min/library", "cub/min/plain"
A, B = ({"index": 0, "uuid": f"GPU-{letter}"} for letter in "ab")
SHAPES = [8, 64], [4, 128]


def document(times: dict[str, float], card: Any, date: str, failed: Any = (), **more: Any) -> dict[str, Any]:
    """A record with each of these on two shapes, in microseconds."""
    common = {"clock": "device", "clock_detail": "graph", "cache": "cold", "device": "NVIDIA H200", "gpu": card}
    common |= {"dim": -1, "dtype": "float32", "bytes": 10**6, "submit_us": 5.0, "ceiling_gb_per_s": 4000.0}
    common |= {"floor_us": 1.0, "shape_set": "map", "samples": 1, "rounds": 1}
    common |= {"versions": {"torch": "2", "driver": "5"}}
    entries = []
    for id, us in times.items():
        for shape in SHAPES:
            backend, op, variant = id.split("/")
            info = {"id": id, "backend": backend, "op": op, "variant": variant, "shape": shape, **common, **more}
            stats = {"median": us / 1e6, "data": [us / 1e6]}
            entries.append({"name": id, "extra_info": info, "stats": stats})
    failed = [{"id": id, "op": "min", "shape": s, "dim": -1, **WRONG} for id in failed for s in SHAPES]
    return {
        "benchmarks": entries,
        "datetime": date,
        "commit_info": {"id": "abc", "dirty": False},
        "kernelzoo": {"format": 1, "failed": failed},
    }


WRONG = {"dtype": "float32", "outcome": "wrong", "reason": "NaN"}
HELD = document({EAGER: 10.0, OURS: 5.0, OLD: 800.0}, A, "2026-11-27T00:00:00", [PLAIN])
NEW = document({EAGER: 10.1, OLD: 12.0, PLAIN: 11.0}, B, "2026-11-28T00:00:00")


def test_new_rows_take_the_place_of_old_ones_and_pages_say_so(tmp_path: Path) -> None:
    before = copy.deepcopy(HELD)
    made = again.merged(HELD, copy.deepcopy(NEW), ["cub"])
    assert before == HELD
    path = tmp_path / "h200-map-min.json"
    again.record.write(path, made)
    results = load([path])
    (group,) = results.groups  # though two cards measured it
    assert sorted(
        (row.id, round(row.microseconds, 9), row.gpu) for row in group.rows if row.problem.reduced_length == 64
    ) == [*((OLD, 12.0, "GPU-b"), (PLAIN, 11.0, "GPU-b"), (EAGER, 10.0, "GPU-a"), (OURS, 5.0, "GPU-a"))]
    assert not results.failed
    told = "cub measured again 2026-11-28T00:00:00, while torch/eager took 1.010 of its earlier time in the mean"
    assert told in sections.environment(results)
    assert "; 2026-11-27 to 2026-11-28." in readme.table(results)
    twice = again.merged(made, copy.deepcopy(NEW), ["cub"])
    assert len(twice["kernelzoo"]["again"]) == 1 and len(twice["benchmarks"]) == len(made["benchmarks"])


def test_the_table_of_the_readme_never_ranks_what_took_fewer_problems(tmp_path: Path) -> None:
    """The fast one took one of two problems; the copy stands on top."""
    held = document({EAGER: 10.0, OURS: 5.0, OLD: 2.0}, A, "2026-11-27", copy_us=8.0)
    held["benchmarks"].pop()
    path = tmp_path / "map.json"
    again.record.write(path, held)
    lines = readme.table(load([path])).splitlines()[4:]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == [
        *("a plain copy", "triton/auto", "torch/eager", "cub/library")
    ]
    assert lines[-1].endswith("(1 of 2; best ranked 0.25) |")


@pytest.mark.parametrize(
    ("new", "backends", "said"),
    [
        (document({EAGER: 10.5, OLD: 1.0}, B, ""), ["cub"], "takes 1.050 of the record's time"),
        (document({EAGER: 10.0, OLD: 1.0}, B, "", device="NVIDIA H100"), ["cub"], "device NVIDIA H100"),
        (document({EAGER: 10.0, OLD: 1.0}, B, "", versions={"driver": "6"}), ["cub"], "driver 6, and in the record 5"),
        (document({EAGER: 10.0, OLD: 1.0}, B, "", rounds=3), ["cub"], "rounds 3"),
        (document({EAGER: 10.0, OLD: 1.0}, B, "", shape=[2, 2]), ["cub"], "other problems"),
        (document({EAGER: 10.0}, B, ""), ["cub"], "cub lacks all results"),
        ({**NEW, "benchmarks": NEW["benchmarks"][:-1]}, ["cub"], "a gap: cub lacks 1 results"),
    ],
)
def test_rows_that_can_not_stand_beside_the_others_are_refused(new: Any, backends: list[str], said: str) -> None:
    with pytest.raises(again.AgainError, match=said):
        again.merged(HELD, copy.deepcopy(new), backends)


def test_a_record_of_part_of_its_problems_is_completed(tmp_path: Path) -> None:
    part = copy.deepcopy(HELD)
    part["benchmarks"] = [entry for entry in part["benchmarks"] if entry["extra_info"]["shape"] == SHAPES[0]]
    part["kernelzoo"]["failed"] = part["kernelzoo"]["failed"][:1]
    held, more = tmp_path / "part.json", tmp_path / "more.json"
    again.record.write(held, part)
    again.record.write(more, document({EAGER: 9.0, OURS: 4.0}, B, "2026-11-28T00:00:00", [PLAIN], shape_set="own"))
    assert again.main([str(held), "--more", str(more)]) == 0
    found = again.read_json(held)
    rows = [
        (tuple(info["shape"]), info["id"], info["shape_set"])
        for info in (one["extra_info"] for one in found["benchmarks"])
    ]
    assert rows == [
        *((tuple(SHAPES[0]), id, "map") for id in (EAGER, OURS, OLD)),
        *((tuple(SHAPES[1]), id, "map") for id in (EAGER, OURS)),
    ]
    assert [failure["shape"] for failure in found["kernelzoo"]["failed"]] == list(SHAPES)
    again.record.write(more, document({EAGER: 9.0}, B, "2026-11-28T00:00:00", rounds=9))
    assert again.main([str(held), "--more", str(more)]) == 1


def test_the_records_own_command_runs_for_what_is_named() -> None:
    (of,) = (one for one in again._records().RECORDS if one.name == "map-min")
    made = again.command(of.words("h200", Path("o.json.gz")), ["cub"])
    options = dict(itertools.pairwise(made))
    assert options["--backend"] == "torch,cub" and options["--waive"] == "cub/min/plain"
    assert options["--variant"] == "eager,library,plain,max_autotune"
    assert "--waive" not in again.command(of.words("h200", Path("o")), ["triton"])
    assert "auto" in again.command(of.words("h200", Path("o")), ["triton"])[made.index("--variant") + 1]


def test_a_yardstick_that_was_wrong_has_a_row_again() -> None:
    odd = [3, 5]
    held, new = copy.deepcopy(HELD), copy.deepcopy(NEW)
    for entry in copy.deepcopy([e for e in new["benchmarks"] if e["extra_info"]["shape"] == SHAPES[0]]):
        entry["extra_info"]["shape"] = odd
        new["benchmarks"].append(entry)
    failure = {"id": EAGER, "op": "min", "shape": odd, "dim": -1, **WRONG}
    held["kernelzoo"]["failed"].append(failure)
    made = again.merged(held, new, ["cub"])
    assert failure not in made["kernelzoo"]["failed"]
    assert {e["extra_info"]["id"] for e in made["benchmarks"] if e["extra_info"]["shape"] == odd} == {EAGER, OLD, PLAIN}
    held["kernelzoo"]["failed"].remove(failure)
    with pytest.raises(again.AgainError, match="other problems"):
        again.merged(held, new, ["cub"])
