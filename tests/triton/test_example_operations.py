"""The Triton kernel of examples/operations: interpreted where TRITON_INTERPRET is 1, else compiled ahead of time."""

import os
import re
from collections.abc import Iterator
from types import ModuleType

import example_operations
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernelzoo
from kernelzoo.check.running import check

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

interpreted = pytest.mark.skipif(not INTERPRETED, reason="interpreter only: run with TRITON_INTERPRET=1")
compiled = pytest.mark.skipif(INTERPRETED, reason="an interpreter compiles nothing")

POINTERS = {"float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32", "float64": "*fp64"}


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[ModuleType]:
    with example_operations.declared() as module:
        yield module


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, for what special values do
def test_passes() -> None:
    found = example_operations.few_cases()
    assert len(found) > 30
    for case in found:
        check(kernelzoo.implementation(f"mine/{example_operations.OP}/triton"), case, "cpu")


@compiled
@pytest.mark.parametrize("dtype", POINTERS)
def test_compiles_for_sm_90(dtype: str, example: ModuleType) -> None:
    """For tensors of any strides; float64 is computed in float64, and nothing else is."""
    kernel = example.l2_normalize_kernel
    wide = tl.float32 if dtype in ("float16", "bfloat16") else getattr(tl, dtype)
    constants = {"EPS": 1e-6, "WIDE": wide, "BLOCK": 1024}
    signature = dict.fromkeys(kernel.arg_names, "i64") | dict.fromkeys(kernel.arg_names[:3], POINTERS[dtype])
    signature |= dict.fromkeys(constants, "constexpr")
    made = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32))
    assert ".target sm_90" in made.asm["ptx"]
    arithmetic = re.findall(r"\b(?:add|mul|sub|fma|setp\.\w+|cvt\.\w+)[\w.]*\.f64\b", made.asm["ptx"])
    assert bool(arithmetic) == (dtype == "float64")
