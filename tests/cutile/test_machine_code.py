"""The machine code of cuTile's kernels for sm_90: what waits for what, and how many programs fit."""

import re
from typing import Any

import pytest
import torch

pytest.importorskip("cuda.tile", reason="the cutile backend needs the package cuda-tile")
from compiled_steps import Binds, Program

import kernelzoo.kernels.cutile as backend
from kernelzoo import operations
from kernelzoo.kernels.cutile import compiler
from kernelzoo.kernels.shared import cubin

if backend.stand_in is not None:
    pytest.skip("nothing is compiled where cuTile is evaluated; unset the variable for it", allow_module_level=True)
if why := compiler.lacking():
    pytest.skip(why, allow_module_level=True)


programs = Binds("cutile").programs


def machine_code(program: Program) -> str:
    if not cubin.tools("nvdisasm"):
        pytest.skip("no nvdisasm found; pip install nvidia-cuda-nvdisasm brings it")
    functions, missing = cubin.disassembly(program.compiled.binary)
    assert missing is None and len(functions) == 1, missing
    return next(iter(functions.values()))


@pytest.mark.parametrize(
    ("op", "form", "shape", "vectors"),
    [
        ("softmax", "fused", (4096, 4096), 4),
        ("softmax", "fused", (4096, 4000), 4),
        ("softmax", "fused", (3001, 5003), 4),
        ("softmax", "fused", (1 << 18, 256), 2),
        ("softmax_backward", "fused", (4096, 4000), 4),
        ("softmax_backward", "fused", (3001, 5003), 4),
        ("min_backward", "fused", (4096, 4000), 4),
        ("softmax", "online", (512, 256000), 2),
        ("softmax", "split_two_launches", (16, 262144), 2),
        ("softmax", "split_two_launches", (5, 3000017), 2),
        ("softmax_backward", "online", (512, 256000), 4),
        ("softmax_backward", "split_two_launches", (16, 262144), 4),
        ("min_backward", "online", (512, 256000), 2),
        ("min_backward", "split_two_launches", (16, 262144), 2),
    ],
    ids=str,
)
def test_vectors_of_half_precision_are_asked_for_together(op, form, shape, vectors) -> None:
    """All that a thread has of a tile: none waits for what another brings, as behind a branch of its own."""
    for program in programs(operations.OPERATIONS[op], form, shape, 1, torch.bfloat16, "sm_90"):
        code = machine_code(program)
        together = max(part.count("LDG.E.128") for part in re.split(r"\b(?:BSSY|BSYNC|BRA)\b", code))
        assert together >= vectors, code


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("form", "shape"), [("online", (4096, 12288)), ("split_two_launches", (16, 262144))], ids=str)
@pytest.mark.parametrize("op", ["softmax", "softmax_backward", "min_backward"])
def test_a_block_is_written_before_all_threads_have_the_one_before(op, form, shape, dtype) -> None:
    """No barrier follows each store: there is one between the loop over whole blocks and that over the others."""
    *_, program = programs(operations.OPERATIONS[op], form, shape, 1, dtype, "sm_90")
    _, first, rest = machine_code(program).partition("STG.E.128")
    assert first and rest.count("STG.E.128") and rest.count("BAR.SYNC") <= 1, rest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("form", "shape"), [("online", (512, 256000)), ("split_two_launches", (16, 262144))], ids=str)
def test_four_programs_of_long_rows_fit_on_a_multiprocessor(form: str, shape: tuple[int, int], dtype: Any) -> None:
    """Of 256 threads, with 64 registers each."""
    for program in programs(operations.OPERATIONS["softmax"], form, shape, 1, dtype, "sm_90"):
        assert program.step.threads == 256 and program.compiled.registers <= 64
