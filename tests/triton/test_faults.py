"""Triton's compiler and its cache when they fail: the row's own loss, in its words, or none."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton
from triton.compiler.errors import CompilationError

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache
from kernelzoo.kernels.shared import jit as launch
from kernelzoo.kernels.triton import probe, why_too_old
from kernelzoo.measure import Problem
from kernelzoo.measure.guard import Guard

MODULE = """
import torch, triton, triton.language as tl, kernelzoo
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def fine(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def typo(x, n, B: tl.constexpr):
    tl.store(x, tl.no_such_function(B))

def compile(kernel):
    source = ASTSource(kernel, {"x": "*fp32", "n": "i32", "B": "constexpr"}, {"B": 128})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32))

@kernelzoo.register("mine", "min", "typo")
def bind_typo(x, out):
    compile(typo)

@kernelzoo.register("mine", "min", "fine")
def bind_fine(x, out):
    compile(fine)
    def launch():
        out.copy_(torch.amin(x, 1))
    return launch
"""

PTXAS = """#!/bin/sh
case "$*" in *--version*) exec {ptxas} "$@" ;; esac
echo "ptxas fatal   : this assembler is broken" >&2
exit 255
"""


def test_what_does_not_compile_and_a_broken_assembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, ptxas = tmp_path / "mine.py", tmp_path / "ptxas"
    module.write_text(MODULE)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    problem, ids = Problem("min", (4, 64), "float32"), ["mine/min/typo", "mine/min/fine"]
    with Guard("cpu", [str(module)]) as guard:
        done, (failed,) = guard.race(problem, ids, rounds=1, cache="hot")
    assert [entry["extra_info"]["id"] for entry in done] == ["mine/min/fine"]
    assert failed["id"] == "mine/min/typo" and "no_such_function" in failed["reason"]
    assert "CompilationError" in failed["reason"]

    ptxas.write_text(PTXAS.format(ptxas=triton.knobs.nvidia.ptxas.path))
    ptxas.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(ptxas))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "another"))
    with Guard("cpu", [str(module)]) as guard:
        done, failed = guard.race(problem, [*ids, "torch/min/eager"], rounds=1, cache="hot")
    assert [entry["extra_info"]["id"] for entry in done] == ["torch/min/eager"]
    assert "this assembler is broken" in next(f for f in failed if f["id"] == "mine/min/fine")["reason"]


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("cut short", "{", 1), KeyError("cubin"), OSError(27, "File too large")]
)
def test_a_damaged_cache_is_gone_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Triton raises these of a cached kernel whose files are cut short or gone, and of a disk that is full."""
    damaged, used = str(tmp_path / "damaged"), []

    def warmup(*args: object, **options: object) -> None:
        used.append(triton.knobs.cache.dir)
        if used[-1] == damaged:
            raise error

    monkeypatch.setenv("TRITON_CACHE_DIR", damaged)
    monkeypatch.setattr(code_cache, "_warned", set())
    x = torch.zeros(1)
    with pytest.warns(RuntimeWarning, match=f"{damaged}.*{type(error).__name__}.*set TRITON_CACHE_DIR"):
        launch.compile_program(x, SimpleNamespace(warmup=warmup), (x,), {"num_warps": 4})
    assert used[0] == damaged and len(used) == 2 and used[1] == os.environ["TRITON_CACHE_DIR"] != damaged


def test_the_compiler_s_own_errors_are_raised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def warmup(*args: object, **options: object) -> None:
        calls.append(1)
        raise CompilationError("source", None, "no such function")

    x = torch.zeros(1)
    with pytest.raises(CompilationError):
        launch.compile_program(x, SimpleNamespace(warmup=warmup), (x,), {"num_warps": 4})
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("version", "named"), [("3.2.0", True), ("3.5.1", True), ("3.6.0", False), ("3.10.0+git", False)]
)
def test_an_old_triton_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, version: str, named: bool) -> None:
    assert bool(why_too_old(version)) is named
    if named:
        monkeypatch.setattr(triton, "__version__", version)
        with pytest.raises(BackendUnavailableError, match=rf"triton {version} is older than 3\.6; install a newer"):
            probe()
