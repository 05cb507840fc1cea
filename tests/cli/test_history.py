"""``kernelzoo history``: the changes of our own results, and of made-up ones, with their exit status."""

import json
from pathlib import Path

from kernelzoo.cli import main

RESULTS = Path(__file__).parents[2] / "bench" / "results"
SWEEPS = [str(RESULTS / f"h200-sweep{part}.json.gz") for part in ("-a", "-b", "")]


def test_our_sweeps_became_faster(capsys) -> None:
    assert main(["history", *SWEEPS, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["file"] for run in told["runs"]] == [Path(path).name for path in SWEEPS] and told["slower"] == 0
    assert [run["measured_again"] for run in told["runs"]] == [0, 0, 600]
    changes = told["runs"][-1]["changes"]
    assert len(changes) > 100 and {change["verdict"] for change in changes} == {"FASTER"}
    for change in changes:
        assert change["interval"][0] <= change["ratio"] <= change["interval"][1] < 0.95
        assert change["since_commit"] == "396c2fc35f"


def test_the_table_names_the_largest_changes(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["history", *SWEEPS, "--by", "10%"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NVIDIA H200, device clock"
    ratios = [float(line.split()[7]) for line in lines if " FASTER " in line]
    assert ratios == sorted(ratios) and len(ratios) > 10
    assert main(["history", *SWEEPS, "--by", "90%"]) == 0
    assert "nothing changed by more than --by" in capsys.readouterr().out


def test_slower_in_the_last_run_is_status_1(tmp_path, capsys) -> None:
    assert main(["bench", *MEASURED, "-o", str(tmp_path / "a.json")]) == 0
    for name, date, us in (("a.json", "2026", 10), ("b.json", "2027", 12)):
        document = json.loads((tmp_path / "a.json").read_text())
        document["datetime"] = f"{date}-01-01T00:00:00"
        for row in document["benchmarks"]:  # whatever else ran on this machine
            row["extra_info"]["flags"] = []
            row["stats"]["data"] = [(us + i / 1e3) / 1e6 for i in range(row["extra_info"]["samples"])]
        (tmp_path / name).write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["history", str(tmp_path / "b.json"), str(tmp_path / "a.json")]) == 1
    assert "SLOWER" in capsys.readouterr().out


MEASURED = ("--backend", "torch", "--variant", "eager", "--op", "softmax", "--shape", "8x64", "--dtype", "float32")
