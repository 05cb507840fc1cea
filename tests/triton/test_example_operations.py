"""The Triton kernels of examples/operations: interpreted where TRITON_INTERPRET is 1, else compiled ahead of time."""

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
def examples() -> Iterator[dict[str, ModuleType]]:
    with example_operations.declared() as modules:
        yield modules


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, for what special values do
@pytest.mark.parametrize("op", example_operations.NAMES)
def test_passes(op: str) -> None:
    found = example_operations.few_cases(op)
    assert len(found) > 30
    for case in found:
        check(kernelzoo.implementation(f"mine/{op}/triton"), case, "cpu")


@compiled
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", example_operations.NAMES)
def test_compiles_for_sm_90(op: str, dtype: str, examples: dict[str, ModuleType]) -> None:
    """Without spills; float64 is computed in float64, and nothing else is."""
    ptx = program(op, dtype, examples[op])
    assert ".target sm_90" in ptx
    arithmetic = re.findall(r"\b(?:add|mul|sub|fma|setp\.\w+|cvt\.\w+)[\w.]*\.f64\b", ptx)
    assert bool(arithmetic) == (dtype == "float64")


def program(op: str, dtype: str, module: ModuleType) -> str:
    """The PTX of an operation's kernel, for tensors of any strides."""
    operation, kernel = kernelzoo.operations.OPERATIONS[op], getattr(module, f"{op}_kernel")
    wide = tl.float32 if dtype in ("float16", "bfloat16") else getattr(tl, dtype)
    constants = {"EPS": 1e-6, "WIDE": wide, "BLOCK": 1024}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    kinds = [operation.dtype_of(name, dtype) for name in operation.inputs]
    kinds += [out.dtype or dtype for out in operation.outputs.values()]
    signature = dict.fromkeys(kernel.arg_names, "i64")
    signature |= dict(zip(kernel.arg_names, [POINTERS[kind] for kind in kinds], strict=False))
    signature |= dict.fromkeys(constants, "constexpr")
    made = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32))
    return str(made.asm["ptx"])
