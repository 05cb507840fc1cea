"""``kernelzoo report --json``: one JSON document."""

import json
from pathlib import Path

from kernelzoo.cli import main
from kernelzoo.files import read_json

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "h200-submit.json.gz"


def test_json_holds_the_results(tmp_path, capsys) -> None:
    assert main(["report", str(RESULTS), "--json", "-o", str(tmp_path / "out"), "--no-figures"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["baseline"] == "torch/eager" and told["failed"] == told["outdated"] == []
    (group,) = told["groups"]
    assert (group["device"], group["clock"]) == ("NVIDIA H200", "submit")
    held = len(read_json(RESULTS)["benchmarks"])
    assert held > 40 and len(group["rows"]) == len(group["summary"]) == held
    eager = next(row for row in group["rows"] if row["id"] == "torch/softmax/eager")
    assert eager["ratio"] == 1 and 1 < eager["median_us"] < 100 and eager["dtype"] == "float32"
    assert eager["quantiles_us"]["p10"] <= eager["median_us"] <= eager["quantiles_us"]["p90"]
    assert told["written"] == [f"{tmp_path / 'out' / 'report.md'} written"]
