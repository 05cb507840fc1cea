"""``kernelzoo race``: what runs here, as a file and a picture."""

import json
import sys
from pathlib import Path

import pytest

from kernelzoo import registry, report
from kernelzoo.cli import main, race
from kernelzoo.cli.availability import Availability

RESULTS = Path(__file__).parents[2] / "bench" / "results"


@pytest.mark.slow
def test_what_runs_here_is_raced_and_drawn(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setitem(race.SHAPES, "cpu", ["16x64"])
    seen = {"torch": Availability("torch", ("cpu",)), "cupy": Availability("cupy", reason="no GPU")}
    monkeypatch.setattr(race.listing, "probe_backends", lambda names: seen)
    monkeypatch.chdir(tmp_path)
    assert main(["race"]) == 0
    document = json.loads(Path("race.json").read_text())
    rows = [entry["extra_info"] for entry in document["benchmarks"]]
    assert {row["op"] for row in rows} == {"softmax", "min"} and {row["backend"] for row in rows} == {"torch"}
    said = " ".join(capsys.readouterr().out.split())
    assert "a picture of it: race.svg" in said and "softmax, times as fast as torch eager: torch" in said
    text = Path("race.svg").read_text()
    assert text.startswith("<?xml") and "<svg" in text


@pytest.mark.slow
def test_no_shape_begins_after_its_time(tmp_path, monkeypatch, capsys) -> None:
    """And --resume measures those that are left."""
    monkeypatch.setitem(race.SHAPES, "cpu", ["16x64"])
    monkeypatch.setattr(race.listing, "probe_backends", lambda names: {"torch": Availability("torch", ("cpu",))})
    monkeypatch.setattr(race, "SECONDS", -1.0)
    command = ["race", "-o", str(tmp_path / "r.json")]
    assert main(command) == 2 and "left out, for lack of time" in capsys.readouterr().err
    monkeypatch.setattr(race, "SECONDS", 300.0)
    monkeypatch.delattr(report, "figure", raising=False)
    monkeypatch.setitem(sys.modules, "kernelzoo.report.figure", None)  # without Matplotlib it says the same
    assert main([*command, *(["--resume"] if (tmp_path / "r.json").exists() else [])]) == 0
    said = capsys.readouterr()
    assert "softmax, times as fast as torch eager: torch" in said.out and "no picture: " in said.err


def test_a_bar_is_the_mean_over_problems_that_all_took() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from kernelzoo.report import figure
    from kernelzoo.report.reading import load

    (group,) = load([RESULTS / "h200-dtypes.json.gz"]).groups
    found = figure.speeds(group, "softmax")
    assert found["torch/eager"] == pytest.approx(1.0) and list(found.values()) == sorted(found.values(), reverse=True)
    assert "triton/auto" in found and found["triton/auto"] > 1
    assert len(figure.draw_speeds(group).axes) == 2


def test_the_default_device_is_a_gpu_where_one_backend_has_it(monkeypatch, tmp_path) -> None:
    asked: dict[str, object] = {}
    seen = {"torch": Availability("torch", ("cpu", "cuda")), "triton": Availability("triton", ("cuda",))}
    monkeypatch.setattr(race.listing, "probe_backends", lambda ids: {name: seen[name] for name in seen if name in ids})
    monkeypatch.setattr(race.bench, "bench", lambda **given: asked.update(given) or 2)
    assert main(["race", "-o", str(tmp_path / "r.json")]) == 2
    assert asked["backend"] == ["torch", "triton"] and asked["device"] == "cuda" and asked["dtype"] == ["bfloat16"]
    assert {"torch", "triton"} <= set(registry.backends())
