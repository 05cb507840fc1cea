"""``kernelzoo report``."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import kernelzoo
from kernelzoo.cli import main
from kernelzoo.files import read_json
from kernelzoo.report.rows import Rows, quantiles

SUBMIT = Path(__file__).parents[2] / "bench" / "results" / "h200-submit.json.gz"


def test_report_is_written_with_its_figures(sweep, write, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'kernelzoo[report]'")
    out = tmp_path / "report"
    assert main(["report", str(write(sweep)), "-o", str(out), "--title", "On the\nH200"]) == 0
    names = {"report.md"} | {f"{op}-float32.{kind}" for op in ("softmax", "min") for kind in ("png", "svg")}
    assert {path.name for path in out.iterdir()} == names
    text = (out / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# On the H200\n") and "(softmax-float32.png)" in text
    assert "triton/softmax/auto" in capsys.readouterr().out


def test_figures_of_several_groups_have_names_of_their_own(host, entry, write, tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'kernelzoo[report]'")
    entries = [*host, entry(), entry(device="nvidia/h200")]
    assert main(["report", str(write(entries)), "-o", str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").glob("*.svg")} == {
        "softmax-float32-some-cpu-2-cores-wall-clock.svg",
        "softmax-float32-nvidia-h200-device-clock.svg",
        "softmax-float32-nvidia-h200-device-clock-2.svg",
    }


def test_without_matplotlib_the_remedy_is_named(host, write, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "kernelzoo.report.figure", raising=False)
    monkeypatch.delattr("kernelzoo.report.figure", raising=False)
    path = str(write(host))
    assert main(["report", path]) == 0
    assert main(["report", path, "-o", str(tmp_path / "out")]) == 2
    assert "pip install 'kernelzoo[report]'" in capsys.readouterr().err


def test_insert_then_check(host, write, tmp_path, capsys) -> None:
    readme = tmp_path / "README.md"
    before = "é\n<!-- results:host-ratios -->\n<!-- /results -->\n"
    readme.write_text(before, encoding="utf-8")
    arguments = [str(write(host)), "--insert", str(readme)]
    assert main(["report", *arguments, "--check"]) == 1
    assert readme.read_text(encoding="utf-8") == before
    assert f"{readme} is out of date: host-ratios" in capsys.readouterr().err
    assert main(["report", *arguments]) == 0
    assert "**0.75**" in readme.read_text(encoding="utf-8")
    assert main(["report", *arguments, "--check"]) == 0


def test_nothing_is_written_if_one_document_is_wrong(host, write, tmp_path, capsys) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("<!-- results:summary -->\n<!-- /results -->\n")
    bad.write_bytes(b"\xff")
    arguments = [str(write(host)), "--insert", str(good), "--insert", str(bad), "-o", str(tmp_path / "out")]
    assert main(["report", *arguments]) == 2
    assert "not UTF-8" in capsys.readouterr().err
    assert good.read_text() == "<!-- results:summary -->\n<!-- /results -->\n" and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["results.json", "x.pdf", "report.md"])
def test_a_report_is_a_page_or_a_folder(name, host, write, tmp_path, capsys) -> None:
    assert main(["report", str(write(host)), "-o", str(tmp_path / name)]) == 2
    assert "name a page, NAME.html, or a folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_record_of_another_command_is_named(tmp_path, capsys) -> None:
    (tmp_path / "fuzz.json").write_text('{"format": "kernelzoo-fuzz/1", "rows": []}')
    assert main(["report", str(tmp_path / "fuzz.json"), "--csv"]) == 2
    assert "is a record of kernelzoo fuzz, which has no times" in capsys.readouterr().err


def test_errors_are_words_and_no_traceback(tmp_path, capsys) -> None:
    (tmp_path / "bad.json").write_text("nonsense")
    assert main(["report", str(tmp_path / "bad.json")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and "is not JSON" in said.err


def test_a_pull_request_gets_a_short_table_an_operation_and_what_changed(entry, write, capsys) -> None:
    rounds = [10 + i / 1000 for i in range(12)]
    slower = [2 * one for one in rounds]
    old = [entry(data=rounds, race="1"), entry("a/softmax/b", data=rounds, race="1")]
    new = [entry(data=rounds, race="1"), entry("a/softmax/b", data=slower, us=20, race="1"), entry("a/min/c", us=5)]
    ours = {"format": 1, "failed": [{"id": "a/min/d", "op": "min", "shape": [8, 8], "dim": 1, "dtype": "float32"}]}
    ours["failed"][0] |= {"outcome": "wrong", "reason": "it is 1"}
    before = str(write(old, "old.json"))
    assert main(["report", str(write(new, ours=ours)), "--markdown", "--against", before]) == 0
    text, shape = capsys.readouterr().out, "float32 (4096, 256)"
    assert text.startswith("**Since the older results**, NVIDIA H200, device clock: 0 faster, 1 slower, 1 same, ")
    assert f"| a/softmax/b | {shape} | 10.0 | 20.0 | 2.00 | 2.00 to 2.00 | slower | 2.00 |\n" in text
    assert f"| torch/softmax/eager | {shape} | 10.0 | 1 | - | - |\n" in text
    assert f"| a/softmax/b | {shape} | 20.0 | 2.00 | 2.00 to 2.00 | slower |" in text and "| wrong |" in text
    assert f"| a/min/c | {shape} | 5.00 | - | - | - |" in text
    assert main(["report", before, "--markdown", "--against", str(write([entry(device="other")]))]) == 0
    assert capsys.readouterr().out.startswith("Nothing can be compared")


def test_many_results_are_counted_in_a_pull_request(sweep, write, capsys) -> None:
    assert main(["report", str(write(sweep)), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40 and any(line.endswith("| 0 | 0 | 0 | 100 | 100 of 100 |") for line in lines)


def test_json_holds_the_results(tmp_path, capsys) -> None:
    assert main(["report", str(SUBMIT), "--json", "-o", str(tmp_path / "out"), "--no-figures"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["baseline"] == "torch/eager" and told["failed"] == told["outdated"] == []
    (group,) = told["groups"]
    assert (group["device"], group["clock"]) == ("NVIDIA H200", "submit")
    held = len(read_json(SUBMIT)["benchmarks"])
    assert held > 40 and len(group["rows"]) == len(group["summary"]) == held
    eager = next(row for row in group["rows"] if row["id"] == "torch/softmax/eager")
    assert eager["ratio"] == 1 and 1 < eager["median_us"] < 100 and eager["dtype"] == "float32"
    assert eager["quantiles_us"]["p10"] <= eager["median_us"] <= eager["quantiles_us"]["p90"]
    assert told["written"] == [f"{tmp_path / 'out' / 'report.md'} written"]


# Results files as rows for programs

RECORD = Path(__file__).parents[2] / "bench" / "results" / "h200-axes.json.gz"


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
