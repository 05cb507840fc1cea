"""``kernelzoo list``: what there is, and what of it runs here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernelzoo as package
from kernelzoo import definitions
from kernelzoo.errors import KernelZooError

Answer = Callable[..., tuple[int, Any]]


def test_every_implementation_and_whether_it_runs(process: Callable[..., Any]) -> None:
    done = process("list", "--json", CUDA_VISIBLE_DEVICES="", TRITON_INTERPRET="0", NUMBA_ENABLE_CUDASIM="0")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    rows = {row["id"]: row for row in told["implementations"]}
    assert list(rows) == [i.id for i in package.implementations()]
    eager = rows["torch/softmax/eager"]
    assert (
        eager["runs_here"] and eager["may_refuse"] and eager["dtypes"] == ["float16", "bfloat16", "float32", "float64"]
    )
    assert not rows["torch/min/auto"]["may_refuse"] and "int8" in rows["torch/min/auto"]["dtypes"]
    for backend in told["backends"]:  # each either runs somewhere, or says why not and what mends it
        assert bool(backend["devices"]) != bool(backend["reason"] and backend["remedy"]), backend
        assert rows[f"{backend['backend']}/min/auto"]["runs_here"] == bool(backend["devices"])


def test_for_people_with_the_reasons(process: Callable[..., Any]) -> None:
    done = process("list", "--backend", "torch,cupy", "--op", "softmax", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0
    assert "torch: runs on cpu" in done.stdout and "cupy: can't run here: " in done.stdout
    assert "torch/softmax/eager" in done.stdout and "torch/min/eager" not in done.stdout
    assert "triton" not in done.stdout


def test_a_file_of_kernels_is_run_in_another_process(answer: Answer, bad: Path) -> None:
    witness = bad.with_name("where.txt")
    bad.write_text(bad.read_text() + f"\nopen({str(witness)!r}, 'a').write(sys.argv[0] + chr(10))\n")
    status, told = answer("list", "--module", bad, "--backend", "bad")
    assert status == 0
    assert "bad/softmax/crashes" in [row["id"] for row in told["implementations"]]
    assert all(row["runs_here"] for row in told["implementations"])
    (where,) = witness.read_text().splitlines()
    assert where.endswith("worker.py")


def test_a_file_that_fails_is_told_with_its_line(answer: Answer, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    for text, told in (
        ("def (:\n", "broken.py, line 1: SyntaxError"),
        ("import sys\nsys.exit('no')\n", "broken.py, line 2: SystemExit: no"),
        ("import kernelzoo\nkernelzoo.register('mine', 'max', 'one')\n", "no operation 'max'"),
        ("x = 1\nx.nothing\n", "broken.py, line 2: AttributeError"),
    ):
        path.write_text(text)
        with pytest.raises(KernelZooError, match=told):  # as the process that loads it does
            definitions.load_reported(str(path))
    status, document = answer("list", "--module", path)
    assert status == 2 and told in document["error"]
