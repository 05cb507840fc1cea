"""The benches end to end, in processes of their own: what they collect, refuse, and write."""

import json
import re
from pathlib import Path

import commands
import pytest

from kernelzoo.measure import problems

pytestmark = pytest.mark.slow

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

ROOT = Path(__file__).parents[1]


def bench(*runs: tuple[str, ...]) -> list[tuple[int, str]]:
    """The exit status and the output of the benches, with each of these options."""
    options = ("pytest", "--benchmark-only", "--rounds", "2", "--device", "cpu")
    found = [commands.run(ROOT, [*options, *more], columns=80) for more in runs]
    return [(status, out + err) for status, out, err in found]


UNKNOWN = {"no backend 'cuda'; known: ": ("--backend", "cuda"), "no shape set 'huge'; known: ": ("--shapes", "huge")}

LEAVES = """
import os
import kernelzoo

@kernelzoo.register("leaver", "min", "leaves")
def leaves(x, out):
    return lambda: os._exit(0)
"""


def test_writes_what_a_report_needs_and_refuses_unknown_options(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    options = ("--backend", "torch", "--variant", "eager,naive", "--op", "softmax,min", "-k", "1823x781")
    options = (*options, "--dtype", "float32")
    module = tmp_path / "leaves.py"
    module.write_text(LEAVES)
    leaves = (f"--module={module}", "--backend", "leaver,torch", "--variant", "leaves,eager", *options[4:])
    drawn = ("--shapes", "random:1", "--seed", "5", *options[:4], "--op", "softmax", "--collect-only")
    (status, said), (left, told), (_, listed), *refused = bench(
        (*options, f"--benchmark-json={path}"), leaves, drawn, *UNKNOWN.values()
    )
    (problem,) = problems("random:1", ("softmax",), seed=5)
    assert f"[{problem.id}-torch/softmax/eager]" in listed
    assert left == 1 and "no result, since it failed: raised RuntimeError: called os._exit(0)" in told
    assert "1 failed, 2 passed" in told  # it costs its own row
    assert re.search("^  no time for leaver/leaves: raised RuntimeError", told, re.MULTILINE)
    assert status == 0, said
    assert re.search(r"^softmax-float32-1823x781 \(1 of 2\)$(?s:.)*^  torch/eager +\S+ µs   1.00 █", said, re.MULTILINE)
    table = said[said.index("benchmark 'min-float32-1823x781'") : said.index("Legend:")]
    assert max(map(len, table.splitlines())) <= 80 and "torch/min/eager" in table
    results = json.loads(path.read_text())
    ids = {entry["extra_info"]["id"] for entry in results["benchmarks"]}
    assert ids == {"torch/softmax/eager", "torch/softmax/naive", "torch/min/eager"}
    for entry in results["benchmarks"]:
        info = entry["extra_info"]
        assert entry["params"] == {"problem": entry["group"], "implementation": entry["name"]}
        assert entry["name"] == info["id"]
        assert (info["clock"], info["shape"], info["shape_set"]) == ("wall", [1823, 781], "quick")
        assert entry["stats"]["rounds"] == 2
        assert info["gb_per_s"] == pytest.approx(info["bytes"] / entry["stats"]["median"] / 1e9, rel=1e-3)
        assert info["versions"]["torch"]
    from kernelzoo.cli import main

    assert main(["report", str(path)]) == 0
    for words, (status, said) in zip(UNKNOWN, refused, strict=True):
        assert status and words in said


ABSENT = """
import kernelzoo.kernels.torch
from kernelzoo.errors import BackendUnavailableError

def probe():
    raise BackendUnavailableError("torch", "it is away", "call it back")

kernelzoo.kernels.torch.probe = probe
"""


def test_what_cannot_run_here_is_a_line_and_no_test(tmp_path: Path) -> None:
    module = tmp_path / "absent.py"
    module.write_text(ABSENT)
    ((status, said),) = bench((f"--module={module}", "--backend", "torch", "-k", "1823x781"))
    assert status == 5 and said.count("  torch: it is away; call it back\n") == 1, said
    assert "1823x781" not in said
