"""The CUDA C++ kernel of examples/operations: compiled by NVRTC, and run where KERNELZOO_EMULATE_PTX is cupy."""

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cupy
import example_operations
import pytest
import torch

import kernelzoo
from kernelzoo.check.running import check
from kernelzoo.kernels.cupy import compiler

EMULATED = os.environ.get("KERNELZOO_EMULATE_PTX") == "cupy"

emulated = pytest.mark.skipif(not EMULATED, reason="emulator only: run with KERNELZOO_EMULATE_PTX=cupy")
compiled = pytest.mark.skipif(EMULATED, reason="for a process without the emulator")


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[ModuleType]:
    with example_operations.declared() as module:
        yield module


@emulated
def test_passes(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(null=contextlib.nullcontext())
    monkeypatch.setattr(example, "cupy", SimpleNamespace(RawKernel=run, cuda=SimpleNamespace(Stream=stream)))
    monkeypatch.setattr(example, "need_gpu", lambda id, x: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    found = example_operations.few_cases()
    assert len(found) > 30
    for case in found:
        check(kernelzoo.implementation(f"mine/{example_operations.OP}/cuda_c"), case, "cpu")


def run(code: str, name: str, options: tuple[str, ...]) -> Callable[..., None]:
    """In the place of ``cupy.RawKernel``."""
    import compiled_cupy  # which conftest.py has loaded

    kernel = compiled_cupy.kernel(code, name, 90, *options, f"-I{headers()}")

    def launch(grid: tuple[int], block: tuple[int], args: Sequence[Any]) -> None:
        kernel.launch(grid, block, [ctypes.c_double(arg) if isinstance(arg, float) else arg for arg in args])

    return launch


def headers() -> Path:
    """Where those of CUDA are."""
    try:
        cupy.cuda.nvrtc.getVersion()
        from cupy import _environment

        found = Path(_environment.get_cuda_path() or "", "include")
    except Exception as error:  # a missing library shows as an ImportError, OSError or RuntimeError, by CuPy's version
        pytest.skip(f"NVRTC can't be loaded: {error}")
    if not (found / "cuda_fp16.h").exists():
        pytest.skip("the headers of CUDA are not installed")
    return found


@compiled
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_compiles_for_sm_90(dtype: str, example: ModuleType) -> None:
    """Without spills; what is not float64 is not added up in it."""
    ptx, log = program(example, dtype)
    assert ".target sm_90" in ptx
    assert "0 bytes spill stores" in log
    sums = re.findall(r"\b(?:add|fma\.rn|min|max|setp\.\w+)\.f64\b", ptx)
    assert bool(sums) == (dtype == "float64")


def program(module: ModuleType, dtype: str) -> tuple[str, str]:
    """PTX, and the assembler's log, of what the example hands to CuPy, with the options that CuPy adds."""
    given: list[tuple[str, tuple[str, ...]]] = []
    with pytest.MonkeyPatch.context() as patch:
        kernel = SimpleNamespace(RawKernel=lambda code, name, options: given.append((code, options)))
        patch.setattr(module, "cupy", kernel)
        module.compiled.__wrapped__(dtype)
    ((code, options),) = given
    made = compiler.compile_code(code, (), 90, (*options, f"-I{headers()}"))
    return made.ptx, made.log
