"""What Helion makes of the kernels, compiled without a device for each architecture."""

import re
import sys
from typing import Any, ClassVar

import bound_once
import helion
import pytest
import torch
import triton
from ahead import LOAD, MIN, OPERATIONS, SOFTMAX, STORE, Ahead, all_forms, forms, name, occurrences
from compiling import bound, compiled, lanes_disagree

from kernelzoo import operations
from kernelzoo.inspect import Request, ask_child
from kernelzoo.kernels.helion import compiler
from kernelzoo.kernels.helion.softmax.fused import tile_kernel

if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)


bound_once.install()
FORMS = forms("helion")
programs = compiled("helion")


class TestHelion(Ahead):
    """No launch is prepared early: a kernel must wait for the launch before, for which Helion has no word."""

    backend, programs = "helion", staticmethod(programs)
    forms = FORMS
    vectors = (
        *(((4096, 4096), 1, torch.float32), ((9973, 64), 1, torch.bfloat16), ((16, 262144), 1, torch.bfloat16)),
        *(((512, 4096), 0, torch.bfloat16), ((8192, 4096), 0, torch.float32)),
    )
    early: ClassVar = {"sm_90": False, "sm_80": False}
    arrivals = ()
    minima = Ahead.minima[:4]
    others = ()

    @staticmethod
    def leaves_out(form: str, shape: tuple[int, ...], axis: int) -> bool:
        return (axis == 0 and form == "rows") or (shape[1] == 64 and form not in ("fused", "rows"))

    @classmethod
    def reads(cls, form: str, made: list[Any]) -> bool:
        return bool(occurrences(LOAD, made[0]))


# Rows of 1000: multiples of a vector, and not of 16 elements, the only one that Triton asks a number about.
BY_AUTO = {SOFTMAX: ((1823, 781), (5, 300017), (1, 300017), (65536, 1000)), MIN: ((1, 300017), (65536, 1000))}
BY_FORM = (
    *((MIN, "rows", (1823, 781)), (MIN, "rows_deferred", (777, 50257)), (MIN, "split", (5, 3000017))),
    *((SOFTMAX, "fused", (3001, 5003)), (SOFTMAX, "online", (777, 50257))),
    (SOFTMAX, "split_two_launches", (61, 99991)),
)


@pytest.mark.parametrize(
    ("op", "form", "shape", "dtype"),
    [
        *((op, "auto", shape, torch.bfloat16) for op, shapes in BY_AUTO.items() for shape in shapes),
        *((*given, dtype) for given in BY_FORM for dtype in (torch.float32, torch.bfloat16)),
    ],
    ids=name,
)
def test_rows_that_begin_anywhere_are_read_by_whole_vectors_inside(op: Any, form: str, shape: Any, dtype: Any) -> None:
    """One alone, too."""
    made = programs(op, form, shape, 1, dtype, "sm_90")
    assert form != "auto" or "ragged" in made[0 if op is MIN else -1].name, made
    assert form == "auto" or not [str(program) for program in made if program.spilled]
    assert occurrences(LOAD, made[0]) and (op is MIN or occurrences(STORE, made[-1]))


@pytest.mark.parametrize(
    ("form", "shape", "axis"),
    [
        ("fused", (4096, 4096), 1), ("fused", (3001, 5003), 1), ("fused", (9973, 64), 1),
        ("online", (512, 131072), 1), ("online", (777, 50257), 1), ("split_two_launches", (16, 262144), 1),
        ("split_two_launches", (5, 300017), 1), ("fused", (512, 4096), 0),
    ],
    ids=str,
)  # fmt: skip
def test_exponentials_are_powers_of_two(form: str, shape: tuple[int, int], axis: int) -> None:
    """The device's own. torch.exp takes four times as many instructions, which is what half precision waits for."""
    for program in programs(SOFTMAX, form, shape, axis, torch.bfloat16, "sm_90"):
        assert occurrences(r"ex2\.approx", program) and not occurrences(r"fma\.rm", program), program.name


@pytest.mark.parametrize("op", OPERATIONS, ids=name)
@pytest.mark.parametrize(
    ("shape", "far"), [((1 << 10, 1 << 10), False), ((1 << 15, 1 << 16), True), ((3, 1 << 31), True)], ids=str
)
def test_offsets_are_counted_in_64_bits_where_32_are_too_few(op: Any, shape: tuple[int, ...], far: bool) -> None:
    for program in programs(op, "auto", shape, -1, torch.float16, "sm_90"):
        assert program.step.constants[2] is far
        wide = occurrences(r"mul\.lo\.s64|mad\.lo\.s64|mul\.wide|shl\.b64", program)
        assert wide or not far, program.name


def test_an_expanded_axis_is_counted_in_64_bits_if_it_is_long() -> None:
    x = torch.empty(2, 1, dtype=torch.int8, device="meta").expand(2, 1 << 31)
    for program in bound(MIN, "auto", x, -1, "sm_90", "helion"):
        assert program.step.constants[2] is True


@pytest.mark.parametrize(("op", "form"), all_forms("helion"), ids=name)
def test_what_is_made_holds_no_number_of_an_example(op: Any, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[compiler.KernelProgram] = []
    to_triton = compiler.to_triton
    monkeypatch.setattr(compiler, "to_triton", lambda program: asked.append(program) or to_triton(program))
    programs(op, form, (4096, 64), 1, torch.float32, "sm_90")
    assert asked
    for program in asked:
        source = compiler.generate_source(program)
        for number in (*compiler.SIZES, compiler.PARTS, compiler.NUMBER):
            assert not re.search(rf"(?<![\w.]){number}\b", re.sub(r"#.*", "", source)) or number in program.blocks
        with monkeypatch.context() as others:
            others.setattr(compiler, "SIZES", (23, 4099, 13))
            others.setattr(compiler, "PARTS", 29)
            others.setattr(compiler, "NUMBER", 509)
            assert compiler.generate_source(program) == source


def test_a_row_that_begins_anywhere_is_not_reshaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 spreads the layout of a reshaped result to the row: every thread would hold all of it."""
    asked: list[compiler.KernelProgram] = []
    to_triton = compiler.to_triton
    monkeypatch.setattr(compiler, "to_triton", lambda program: asked.append(program) or to_triton(program))
    programs(SOFTMAX, "fused", (67, 16381), 1, torch.bfloat16, "sm_90")
    assert asked and not [program for program in asked if "tl.reshape" in to_triton(program).source]


def test_no_other_framework_is_started() -> None:
    """The package asks JAX for a TPU, which reserves most of a GPU's memory, unless its heuristics are off."""
    looked: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            looked.append(name)

    kinds = (compiler.ExampleTensor(torch.float16),) * 2
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    try:
        compiler.generate_source(
            compiler.KernelProgram(tile_kernel, kinds, 0, (torch.float32,), (2, 1), (1, 0), 1, False)
        )
    finally:
        sys.meta_path.remove(Finder)  # type: ignore[arg-type]
    assert "jax" not in looked


def test_a_kernel_looked_at_once_is_made_the_same_for_each_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests do and the package doesn't, which is several times faster; see bound_once.py."""
    kinds = (compiler.ExampleTensor(torch.float16),) * 2
    programs = [
        compiler.KernelProgram(tile_kernel, kinds, 0, (torch.float32,), blocks, (1, 0), warps, False)
        for blocks, warps in (((1, 1), 1), ((4, 1), 2), ((8, 2), 1), ((4, 1), 4))
    ]
    once = [compiler.generate_source(program) for program in programs]
    monkeypatch.setattr(compiler, "helion", helion)
    assert [compiler.generate_source(program) for program in programs] == once
    assert len(set(once)) == len(once)


def test_the_environment_changes_nothing_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (compiler.ExampleTensor(torch.float32),) * 2
    program = compiler.KernelProgram(tile_kernel, kinds, 0, (torch.float32,), (4, 1), (1, 0), 1, False)
    before = compiler.generate_source(program)
    for key in ("FAST_MATH", "INTERPRET", "STATIC_SHAPES", "DEBUG_DTYPE_ASSERTS", "FORCE_AUTOTUNE"):
        monkeypatch.setenv(f"HELION_{key}", "1")
    assert compiler.generate_source(program) == before


@pytest.mark.parametrize("arch", ["sm_75", "gfx942"])
def test_other_architectures_are_compiled_for(arch: str) -> None:
    for op in OPERATIONS:
        assert programs(op, "auto", (64, 4096), 1, torch.float32, arch)


def test_auto_takes_whole_rows_while_they_fit_and_shows_what_helion_makes_of_them() -> None:
    forms = {(4096, 64): "fused", (4096, 4096): "fused", (4, 1 << 20): "split_two_launches"}
    # One process for all: each imports Helion for seconds.
    answers = ask_child([Request("helion", "softmax", "auto", shape, "float32", -1, "sm_90") for shape in forms])
    for (kernel, *_), form in zip(answers, forms.values(), strict=True):
        assert kernel.implementation == f"helion/softmax/{form}"
        assert kernel.language == "helion" and kernel.source is not None
        written, made = kernel.source.split("# What Helion makes of it:")
        assert f"def {kernel.name.removeprefix('_helion_')}(" in written and "@triton.jit" in made
        assert kernel.source_file is not None and kernel.source_file.startswith("kernelzoo/kernels/helion/softmax/")


@pytest.mark.parametrize("op", ["rms_norm_backward", "layer_norm_backward"])
def test_lanes_have_one_sum_that_any_of_them_may_write(op: str) -> None:
    made = programs(operations.OPERATIONS[op], "rows", (5003, 21), 0, torch.float32, "sm_90")
    assert any("shfl.sync.bfly" in program.ptx for program in made)
    assert not any(map(lanes_disagree, made))
