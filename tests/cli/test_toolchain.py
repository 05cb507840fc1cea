"""Kernels that don't compile, and compilers that are broken: a row each, in the compiler's own words, and no more."""

import json
import os
import shutil
from pathlib import Path

import pytest

MODULE = r'''
import subprocess
import torch
import kernelzoo

@kernelzoo.register("mine", "min", "c")
def c(x, out):
    """Does not compile, and says so at length."""
    source = "void kernel(float* x) { x[0] = y; }\n" * 200
    done = subprocess.run(["cc", "-x", "c", "-c", "-o", "/dev/null", "-"], input=source, capture_output=True, text=True)
    raise RuntimeError(f"cc failed:\n{done.stderr}\x1b[31m[bold]the end[/bold]")

@kernelzoo.register("mine", "min", "missing")
def missing(x, out):
    subprocess.run(["no-such-compiler"], check=True)
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler that works")
def test_what_does_not_compile_costs_its_own_row(kernelzoo, module, small, tmp_path) -> None:
    """Torch's own compiler is broken too, on the host by its C++ compiler."""
    broken = tmp_path / "bin" / "g++"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'g++: fatal error: this compiler is broken' >&2; exit 1\n")
    broken.chmod(0o755)
    changes = {"CXX": str(broken), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "empty")}
    changes["PATH"] = f"{broken.parent}{os.pathsep}{os.environ['PATH']}"
    names = ("mine/c", "mine/missing", "torch/compile", "torch/eager")
    command = ("compare", *names, "--op", "min", *small, "--module", module, "-o", "r.json")
    done = kernelzoo(*command, **changes)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    whole = {f["id"]: f for f in json.loads((tmp_path / "r.json").read_text())["kernelzoo"]["failed"]}
    assert set(whole) == {"mine/min/c", "mine/min/missing", "torch/min/compile"}
    assert {id: failure["outcome"] for id, failure in whole.items()} == dict.fromkeys(whole, "failed"), whole
    assert "error: ‘y’ undeclared" in whole["mine/min/c"]["reason"] or "'y'" in whole["mine/min/c"]["reason"]
    assert len(whole["mine/min/c"]["reason"]) > 5000  # all of it
    assert "no-such-compiler" in whole["mine/min/missing"]["reason"]
    assert "No working C++ compiler found" in whole["torch/min/compile"]["reason"]
    printed = {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith("FAILED ")}
    assert set(printed) == set(whole)
    assert all(len(line) < 600 for line in printed.values())
    assert "RuntimeError: cc failed:" in printed["mine/min/c"]
    assert printed["mine/min/c"].endswith("[bold]the end[/bold]") and "\x1b" not in done.stdout
    assert "torch/min/eager" in done.stdout


def test_findings_are_shortened(kernelzoo, module) -> None:
    words = "raise RuntimeError('words ' * 5000 + '\\x1b[31m[bold]the end[/bold]')"
    module.write_text(MODULE.replace("    source =", f"    {words}\n    source ="))
    done = kernelzoo("verify", "mine/min/c", "--module", module, "--device", "cpu")
    assert done.returncode == 1
    assert len(done.stdout) < 5000 and "\x1b" not in done.stdout and "[bold]the end[/bold]" in done.stdout
    assert "1 checked, 1 with findings, 0 not checked" in done.stdout


def test_whose_code_runs_is_said_before_it_runs(kernelzoo, tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import sys\nprint('it runs', file=sys.stderr)\nraise SystemExit('no')\n")
    done = kernelzoo("list", "--module", path)
    assert done.returncode == 2
    said, error = done.stderr.splitlines()
    assert said == f"runs {path}, with all that this user may do"
    assert error.startswith("error: ") and "SystemExit: no" in error


def test_an_announced_backend_is_named_before_it_is_loaded(process, tmp_path) -> None:
    site = tmp_path / "site"
    info = site / "announced-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[kernelzoo.backends]\ntheirs = announced.kernels\n")
    package = site / "announced" / "kernels"
    package.mkdir(parents=True)
    witness = tmp_path / "witness.txt"
    package.with_name("__init__.py").write_text(f"open({str(witness)!r}, 'w').close()\n")
    (package / "__init__.py").write_text("def probe():\n    return ('cpu',)\n")
    body = """
import torch, kernelzoo

@kernelzoo.register("theirs", "min", "one")
def one(x, out):
    def launch():
        torch.amin(x, 1, out=out)
    return launch
"""
    (package / "min.py").write_text(body)
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    done = process("list", "--backend", "theirs", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, "") and "theirs: not loaded: " in done.stdout
    assert not witness.exists()
    options = ("--shape", "4x4", "--dtype", "float32", "--cache", "hot", "--rounds", "1", "--device", "cpu")
    done = process("compare", "theirs/min/one", "torch/min/eager", *options, PYTHONPATH=path)
    said, *_ = done.stderr.splitlines()
    assert done.returncode == 0 and witness.exists(), done.stdout
    assert said == "runs announced.kernels (entry point theirs of announced 1), with all that this user may do"
