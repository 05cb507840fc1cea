"""Results files as rows for programs."""

import csv
import io
import json
from pathlib import Path

import pytest

import kernelzoo
from kernelzoo.cli import main
from kernelzoo.report.rows import Rows, quantiles

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "bench" / "results" / "h200-axes.json.gz"


def test_every_row_has_the_same_keys_and_the_middle_of_its_samples() -> None:
    rows = kernelzoo.results.read(RECORD)
    assert len(rows) > 50 and len({tuple(sorted(row)) for row in rows}) == 1
    timed = [row for row in rows if row["outcome"] == "measured"]
    for row in timed:
        assert row["p10"] <= row["quartile_1"] <= row["seconds"] <= row["quartile_3"] <= row["p90"]
        assert row["gb_per_s"] == pytest.approx(row["bytes"] / row["seconds"] / 1e9)
        assert row["id"] == f"{row['backend']}/{row['op']}/{row['variant']}" and row["versions"]["torch"]
    for row in (row for row in rows if row["outcome"] != "measured"):
        assert row["reason"] and row["seconds"] is None
    assert all(isinstance(row[name], str) for row in rows for name in ("reason", "breaks"))  # or polars refuses them


def test_quantiles_lie_among_the_samples() -> None:
    told = quantiles([3.0, 1.0, 2.0])  # of so few, other rules give less than the least
    assert told == {"p10": pytest.approx(1.2), "quartile_1": 1.5, "quartile_3": 2.5, "p90": pytest.approx(2.8)}
    assert quantiles([2e-6, 2e-6], 1e-6)["p90"] == pytest.approx(2) and quantiles([1.0])["p10"] is None


def test_a_notebook_shows_a_table() -> None:
    rows = Rows([{"id": "a/<b>", "reason": None, "seconds": 1.23456e-5, "shape": [2, 3]}] * 101)
    shown = rows._repr_html_()
    assert isinstance(rows, list) and "reason" not in shown and shown.count("<tr>") == 101
    assert "<tr><td>a/&lt;b&gt;</td><td>1.235e-05</td><td>[2, 3]</td></tr>" in shown and "and 1 more" in shown
    assert Rows()._repr_html_() and "torch/softmax/auto" in kernelzoo.results.read(RECORD)._repr_html_()


def test_the_csv_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    rows = kernelzoo.results.read(RECORD)
    assert main(["report", str(RECORD), "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(lines) == len(rows) and list(lines[0]) == list(rows[0])
    for line, row in zip(lines, rows, strict=True):
        assert line["id"] == row["id"] and json.loads(line["shape"]) == row["shape"]
        assert line["seconds"] == ("" if row["seconds"] is None else str(row["seconds"]))


def test_two_documents_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(RECORD), "--csv", "--json"]) == 2
    assert "--csv and --json are two documents" in capsys.readouterr().err
