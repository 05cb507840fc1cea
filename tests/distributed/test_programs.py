"""The programs that measure and check ranks on GPUs, on two ranks of gloo; and the model that a record makes."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.distributed
from scripts import loaded

ROOT = Path(__file__).parents[2]
ranks_model = loaded(ROOT / "bench" / "ranks_model.py")
pages = loaded(ROOT / "bench" / "pages.py")


def started(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of bench/, on the host."""
    place = {"CUDA_VISIBLE_DEVICES": "", "NUMBA_NUM_THREADS": "1"}
    place["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, str(ROOT / "bench" / program), "--ranks", "2", *arguments]
    return subprocess.run(command, env=os.environ | place, capture_output=True, text=True, timeout=240)


@pytest.mark.nightly
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
def test_the_bench_runs_and_says_that_a_host_measures_nothing(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = started("distributed.py", "-o", str(file), "--rounds", "6")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["format"] == "kernelzoo-distributed/1" and found["ranks"] == 2 and not found["performance"]
    assert found["left_out"] == [] and "left out" not in done.stderr and len(found["devices"]) == 2
    ways = {(row["op"], row["cut"], row["way"]) for row in found["rows"]}
    for op in ("softmax", "min", "softmax_backward", "min_backward"):
        assert {way for one, cut, way in ways if (one, cut) == (op, "evenly")} >= {"torch by hand", "one GPU"}
    assert ("softmax", "one empty", "torch by gloo") in ways and ("min", "unevenly", "torch by gloo") in ways
    assert ("softmax", "evenly", "torch's DTensor") in ways and ("softmax", "evenly", "torch's loss_parallel") in ways
    lines = done.stdout.splitlines()
    assert "NO PERFORMANCE" in lines[-1] and max(map(len, lines)) <= 80


@pytest.mark.nightly
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
def test_the_checks_run_and_a_rank_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = started("ranked_checks.py", "-o", str(file), "--seconds", "4", "--calls", "40")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = json.loads(file.read_text(encoding="utf-8"))
    said = " ".join(found["command"])
    assert said.startswith("python bench/ranked_checks.py ") and "found.json" in said and str(tmp_path) not in said
    rows = found["rows"]
    assert {row["section"] for row in rows} == {"contract", "repeat", "killed"}
    assert {row["op"] for row in rows} == {"softmax", "min", "softmax_backward", "min_backward"}
    assert all(row["count"] and not row["wrong"] for row in rows)
    assert max(map(len, done.stdout.splitlines())) <= 80


def record(ranks: int = 2) -> dict[str, Any]:
    """A made-up one: 4 TB/s, 2 us a launch, 10 us an exchange and 1 us for each 100 rows."""
    exchange = [
        {"way": way, "how": "graph", "rows": rows, "ranks": ranks, "us": us + rows / 100}
        for way, us in (("nccl all_gather of a pair a row", 10), ("one launch by symmetric memory, 128 columns", 7))
        for rows in (100, 1100)
    ]
    row = {"op": "softmax", "shape": [100, 1000000], "dtype": "float32", "cut": "evenly", "how": "graph"}
    row |= {"limit_us": 101.0, "ranks": ranks, "way": "triton by nccl", "us": 170.0}
    others = {"way": "triton by symmetric memory", "us": 107.0}, {"way": "one GPU", "ranks": 1, "us": 203.0}
    made = {"format": "kernelzoo-distributed/1", "ranks": ranks, "started": "2026-01-01T00:00:00", "seconds": 1.0}
    made["environment"] = {"device": f"{ranks} x NVIDIA H200", "versions": {"torch": "2.11"}}
    made |= {"exchange": exchange, "rows": [row, *(row | other for other in others)], "performance": True}
    return made | {"ceilings": [{"copy": 4e12, "read": 4e12, "floor_s": 2e-6}] * ranks}


def test_the_model_is_its_formula() -> None:
    model = ranks_model.model([record()], "group")
    assert model.exchange(2, 100) == pytest.approx((11e-6, 11e-6))
    assert model.exchange(2, 600) == pytest.approx((16e-6, 16e-6)), "between, a straight line"
    assert model.exchange(5, 100) == pytest.approx((11e-6, 44e-6)), "beyond, as it was or in proportion"
    assert model.seconds(1, 100, 400_000_000) == pytest.approx((202e-6, 202e-6))
    assert model.seconds(4, 100, 400_000_000) == pytest.approx((6e-6 + 75e-6 + 11e-6, 6e-6 + 75e-6 + 33e-6))
    symmetric = ranks_model.model([record()], "symmetric")
    assert symmetric.seconds(2, 100, 400_000_000) == pytest.approx((2e-6 + 100e-6 + 6e-6,) * 2)
    assert symmetric.pays(100, 400_000_000) == 4 and symmetric.pays(100, 4_000_000) == 1
    none = record() | {"ceilings": [None, None]}
    assert ranks_model.model([none], "group") is None


def test_more_records_narrow_the_model() -> None:
    model = ranks_model.model([record(), record(4)], "group")
    assert model.exchange(4, 100)[0] == model.exchange(4, 100)[1] == model.exchange(3, 100)[1]
    assert model.exchange(7, 100)[1] == pytest.approx(2 * model.exchange(4, 100)[1])


def test_the_page_is_made_of_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ranks in (4, 2):
        (tmp_path / f"h200x{ranks}-distributed.json").write_text(json.dumps(record(ranks)), encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    scaled = {"gain": 3.664, "sweeps": [{"problems": 30}]}
    (tmp_path / "h200x4-scaling.json").write_text(json.dumps(scaled), encoding="utf-8")
    page = pages.Page("page.md", ("h200x4-distributed", "h200x2-distributed"), program="ranks_model")
    assert page.make(check=True)
    assert not page.make(check=False) and not page.make(check=True)
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.index("## 2 x NVIDIA H200") < text.index("## 4 x NVIDIA H200") < text.index("more ranks")
    assert "| softmax 100x1000000 f32 | 101.0 | 170.0 | **107.0** | 203.0 |" in text
    assert "| 100x1000000, 400 MB | 202 (203) | 108 (107) |" in text
    assert "| 100x1000000 | 92 | 3 | 95 | 170 |" in text, "3 launches of 2 us, 3 passes of 25 us, 11 us"
    assert text.count("A sweep of 30 problems") == 1 and "goes 3.66 times as fast" in text
    assert "not measured" not in text
    changed = copy.deepcopy(record(2))
    changed["rows"][0]["us"] = 171.0
    (tmp_path / "h200x2-distributed.json").write_text(json.dumps(changed), encoding="utf-8")
    assert page.make(check=True)
