"""bench/aa.py, the A/A experiment, from the script to the block of a document; and bench/counters.py."""

import json
import math
import subprocess
import sys
import types
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import scripts

from kernelzoo.report import findings

SCRIPT = Path(__file__).parents[2] / "bench" / "aa.py"

SAME, FASTER, SLOWER, UNCLEAR = "same", "faster", "slower", "unclear"


@pytest.fixture(scope="module")
def script() -> types.ModuleType:
    return scripts.loaded(SCRIPT)


def raced(verdicts: list[str], against: list[str] | None = None) -> dict[str, Any]:
    medians = [20e-6] * (len(verdicts) - 2) + [19.9e-6, 20.1e-6]
    return {"medians": medians, "verdicts": verdicts, "against": against or []}


def test_verdicts_are_counted_and_medians_spread(script) -> None:
    verdicts = [SAME] * 96 + [FASTER, SLOWER, SLOWER, UNCLEAR]
    counted = script.counted(raced(verdicts, ["slower", "noisy", "noisy", "ok"]))
    assert counted.pop("median_us") == pytest.approx(20)
    assert counted == {
        "races": 100,
        "same": 96,
        "faster_or_slower": 3,
        "unclear": 1,
        "spread_%": 1.0,
        "sd_%": 0.07,
        "slower_than_before": 1,
        "too_noisy": 2,
    }


@pytest.mark.parametrize(("same", "passes"), [(95, True), (94, False)])
def test_95_in_100_must_say_same(script, same, passes) -> None:
    row = {"outcome": "raced", **script.counted(raced([SAME] * same + [UNCLEAR] * (100 - same)))}
    assert script.passed(row) is passes
    assert not script.passed({"outcome": "failed", "reason": "it is wrong"})


TINY = ("--shape", "64x33", "--rounds", "6", "--pairs", "2", "--device", "cpu")

ENTRANTS = """
import kernelzoo
from kernelzoo import UnsupportedProblemError


@kernelzoo.register("nowhere", "softmax", "auto")
def nowhere(x, out):
    raise UnsupportedProblemError("nowhere/softmax/auto", "it never can")


@kernelzoo.register("zeros", "softmax", "auto")
def zeros(x, out):
    def launch():
        out.zero_()

    return launch
"""


@pytest.mark.slow
def test_the_script_races_implementations_with_themselves(script, tmp_path, capsys) -> None:
    """Whatever the verdicts on this machine, they are counted; what can't run, or is wrong, says why."""
    (tmp_path / "entrants.py").write_text(ENTRANTS)
    path, ids = tmp_path / "aa.json", ["torch/softmax/eager", "nowhere/softmax/auto", "zeros/softmax/auto"]
    status = script.main([*TINY, "-o", str(path), "--module", str(tmp_path / "entrants.py"), "--ids", *ids])
    assert status == 1
    first, wrong = findings.load(path).rows
    assert (first["id"], first["races"], wrong["id"], wrong["outcome"]) == (ids[0], "2", ids[2], "wrong")
    assert wrong["reason"] and "races" not in wrong
    printed = " ".join(capsys.readouterr().out.split())
    assert "nowhere/softmax/auto: " in printed and "it never can" in printed
    assert "softmax of (64, 33) float32, 6 rounds in a race" in printed and "torch/softmax/eager" in printed
    assert "| torch/softmax/eager | 2 |" in findings.markdown_by_kind([path])["aa"]


def test_the_script_takes_torch_eager_and_the_choosers_of_others(script) -> None:
    ids = [
        "torch/softmax/auto",
        "torch/softmax/eager",
        "triton/softmax/auto",
        "triton/softmax/fused",
        "triton/min/auto",
    ]
    assert script.entrants("softmax", ids) == ["torch/softmax/eager", "triton/softmax/auto"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rounds", "5"), "a verdict needs 6 at least"),
        (("--pairs", "0"), "race at least once"),
        (("--dtype", "int8"), "softmax has no dtype 'int8'; known: "),
        (("--shape", "4096*2"), "write 4096x4096"),
        (("--shape", "0x2"), "write 4096x4096"),
        (("--op", "max"), "invalid choice: 'max'"),
    ],
)
def test_options_that_make_no_sense_are_errors(script, options, words, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        script.main([*options, "-o", "aa.json"])
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


# counters.py: which launches are profiled, and what is made of a profiler's words (a stand-in's)

COUNTERS = Path(__file__).parents[2] / "bench" / "counters.py"
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
    return scripts.loaded(COUNTERS)


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
    found = tmp_path / "found.json"
    argv = ["counters.py", str(MAP), "--below", "0.6", "-o", str(found), "--backends", "cupy,numba,triton"]
    monkeypatch.setattr(sys, "argv", argv)
    assert profile.main() == 0
    rows = json.loads(found.read_text())["rows"]
    assert sorted((row["id"], row["of limit"]) for row in rows) == sorted(
        (case["id"], round(case["of_limit"], 2)) for case in cases
    )
    assert {(row["kernel"], row["us"], row["MB read"]) for row in rows} == {("tiled", 2.0, 1.2)}
    assert "| cupy/softmax/auto | bfloat16 (16, 262144) |" in findings.markdown_by_kind([found])["profile"]


def test_a_profiler_that_fails_is_quoted(profile, tmp_path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text("#!/bin/sh\necho 'no permission to read counters' >&2\nexit 1\n")
    ncu.chmod(0o700)
    with pytest.raises(RuntimeError, match="no permission"):
        profile.profile(str(ncu), [])
    assert subprocess.run([sys.executable, COUNTERS], capture_output=True, text=True).returncode == 2
