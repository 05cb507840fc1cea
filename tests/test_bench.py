"""The benches end to end, in a process of their own: what they collect, refuse, and write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

ROOT = Path(__file__).parents[1]


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--benchmark-only", "-q", "--rounds", "2", "--device", "cpu", *options]
    # Under pytest-xdist, which these variables tell of, pytest-benchmark would measure nothing.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=300)


def test_writes_what_a_report_needs(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    options = ("--backend", "torch", "--variant", "eager,naive", "--op", "softmax,min", "-k", "1823x781")
    done = bench(*options, f"--benchmark-json={path}")
    assert done.returncode == 0, done.stdout
    assert "softmax-float32-1823x781: time / torch eager: torch/softmax/eager 1.00" in done.stdout
    results = json.loads(path.read_text())
    assert {entry["extra_info"]["id"] for entry in results["benchmarks"]} == {
        "torch/softmax/eager",
        "torch/softmax/naive",
        "torch/min/eager",
    }
    for entry in results["benchmarks"]:
        info = entry["extra_info"]
        assert (info["clock"], info["shape"], info["shape_set"]) == ("wall", [1823, 781], "quick")
        assert entry["stats"]["rounds"] == 2
        assert info["gb_per_s"] == pytest.approx(info["bytes"] / entry["stats"]["median"] / 1e9, rel=1e-3)
        assert info["versions"]["torch"]
    from kernelzoo.report.__main__ import main

    assert main([str(path)]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backend", "cuda"), "no backend 'cuda'; known: "),
        (("--shapes", "huge"), "no shape set 'huge'; known: "),
        (("--op", "max"), "no operation 'max'; known: "),
        (("--dtype", "float8"), "dtype 'float8'; known: "),
    ],
)
def test_unknown_options_are_errors(options: tuple[str, ...], words: str) -> None:
    done = bench(*options)
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
