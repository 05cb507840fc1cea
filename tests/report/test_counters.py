"""bench/counters.py: which launches are profiled, and what is made of a profiler's words (a stand-in's)."""

import json
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import scripts

from kernelzoo.report import findings

SCRIPT = Path(__file__).parents[2] / "bench" / "counters.py"
MAP = Path(__file__).parents[2] / "bench" / "results" / "h200-map-softmax.json.gz"

STAND_IN = """
import json, sys
metrics = sys.argv[sys.argv.index("--metrics") + 1].split(",")
cases = json.load(open(sys.argv[-1]))
quoted = lambda words: ",".join('"%s"' % word for word in words)
print("==PROF== words before the table")
print(quoted(["ID", "Kernel Name", "thread Domain:Push/Pop_Range", *metrics]))
print(quoted(["", "", "", *("unit" for _ in metrics)]))
for number in reversed(range(len(cases))):
    values = ["1,234,567" if "bytes" in name else "2000" for name in metrics]
    print(quoted([number, "void tiled<float, 4>(Problem)", '<default domain>:case %d:none' % number, *values]))
"""


@pytest.fixture
def profile() -> ModuleType:
    return scripts.loaded(SCRIPT)


def test_the_profilers_words_become_a_table(profile, tmp_path, monkeypatch) -> None:
    cases = profile.short([MAP], ["cupy", "numba", "triton"], 0.6, 0)
    assert cases and all(case["of_limit"] < 0.6 and case["id"].endswith("/auto") for case in cases)
    assert {case["id"].split("/")[0] for case in cases} == {"cupy", "numba", "triton"}
    large = profile.short([MAP], ["cupy"], 0.6, 10_000_000)
    assert large and len(large) < len(cases) and all(math.prod(case["shape"]) >= 2_500_000 for case in large)
    assert profile.short([MAP], ["cupy"], 0.6, 10_000_000_000) == []
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!{sys.executable}\n{STAND_IN}")
    ncu.chmod(0o700)
    monkeypatch.setattr(profile.shutil, "which", lambda name: str(ncu))
    monkeypatch.setattr(profile.measure, "device_name", lambda device: "a card")
    monkeypatch.setattr(profile.measure, "versions", lambda device: {"torch": "2"})
    argv = ["counters.py", str(MAP), "--below", "0.6", "-o", str(tmp_path / "found.json")]
    argv += ["--backends", "cupy,numba,triton"]
    monkeypatch.setattr(sys, "argv", argv)
    assert profile.main() == 0
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert sorted((row["id"], row["of limit"]) for row in rows) == sorted(
        (case["id"], round(case["of_limit"], 2)) for case in cases
    )
    assert {(row["kernel"], row["us"], row["MB read"]) for row in rows} == {("tiled", 2.0, 1.2)}
    assert "| cupy/softmax/auto | bfloat16 (16, 262144) |" in findings.blocks([tmp_path / "found.json"])["profile"]


def test_a_profiler_that_fails_is_quoted(profile, tmp_path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text("#!/bin/sh\necho 'no permission to read counters' >&2\nexit 1\n")
    ncu.chmod(0o700)
    with pytest.raises(RuntimeError, match="no permission"):
        profile.profile(str(ncu), [])
    assert subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True).returncode == 2
