"""cuTile's kernels, compiled without a device for each architecture at the tiles that the bind functions choose."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import cuda.tile as ct
import pytest
import torch
from ahead import ARCHITECTURES as NAMES
from ahead import FLOATS, LOAD, MIN, SOFTMAX, STORE, Ahead, forms, name, occurrences
from compiled_steps import Binds, Program

import kernelzoo
import kernelzoo.kernels.cutile as backend
from kernelzoo import operations, registry
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.errors import GridTooLargeError, UnsupportedProblemError
from kernelzoo.inspect import inspect as inspected
from kernelzoo.kernels.cutile import compiler, launch
from kernelzoo.kernels.cutile.compiler import ArrayProperties
from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import record_binds

if backend.stand_in is not None:
    pytest.skip("nothing is compiled where cuTile is evaluated; unset the variable for it", allow_module_level=True)
if why := compiler.why_cannot_compile():
    pytest.skip(why, allow_module_level=True)


BINDS = Binds("cutile")
bound, programs = BINDS.bound, BINDS.programs
VECTORS = LOAD.removesuffix(")") + r"|16\.b8)"
FORMS = forms("cutile")


class TestCutile(Ahead):
    backend, programs = "cutile", staticmethod(programs)
    compiler, makes = compiler, "to_cubin"
    forms = FORMS
    vectors = (((4096, 4096), 1, None), ((1 << 18, 64), 1, None), ((512, 4096), 0, None))
    first_statement, least_kernels = "ct.grid_dependency_control_wait()", 14
    arrival, read_after = "atom.global.acq_rel.add.u32", r"bar\.sync.*ld\.global"

    @staticmethod
    def leaves_out(form: str, shape: tuple[int, ...], axis: int) -> bool:
        """Rows that are read one by one, and less than a vector to a thread."""
        short = shape[1] == 64 and form not in ("fused", "rows", "rows_deferred")
        return short or (axis == 0 and form in ("online", "rows"))

    @classmethod
    def kernels(cls) -> Iterator[Any]:
        yield from {function._pyfunc for *_, function in cls.functions() if isinstance(function, ct.kernel)}

    @staticmethod
    def keeps_nan(program: Any, dtype: Any) -> None:
        if dtype == torch.float64:
            assert occurrences(r"setp\.nan\.f64", program) >= occurrences(r"\bmin\.f64", program) > 0
        else:
            Ahead.keeps_nan(program, dtype)


def taken(op: operations.Operation, form: str, arch: str) -> Iterator[Program]:
    """The programs of a form for some problems."""
    for _, made in TestCutile().taken(op, form, arch, torch.bfloat16, Ahead.waiting):
        yield from made


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "n"), [("softmax", 781), ("softmax", 12345), ("softmax_backward", 7001)], ids=str)
def test_rows_that_start_anywhere_are_read_and_written_by_vectors_inside(op: str, n: int, dtype: Any) -> None:
    """Of a row's ends each thread has one element of each input at the most."""
    (program,) = programs(operations.OPERATIONS[op], "fused", (777, n), 1, dtype, "sm_90")
    assert program.compiled.constants["PACK"] == 16 // dtype.itemsize and not program.spilled
    alone = {direction: occurrences(rf"{direction}\.global\S*\.b(?:16|32|64)\s", program) for direction in ("ld", "st")}
    assert occurrences(LOAD, program) and occurrences(STORE, program)
    vectors = {direction: occurrences(rf"{direction}\.global\S*\.v\S*", program) for direction in ("ld", "st")}
    inputs = 1 if op == "softmax" else 2
    assert {direction: alone[direction] - vectors[direction] for direction in alone} == {"ld": inputs, "st": 1}


@pytest.mark.parametrize(
    ("op", "shape"),
    [("softmax", (1823, 781)), ("softmax", (1, 300017)), ("softmax_backward", (1823, 781)), ("min", (1, 300017))],
    ids=str,
)
def test_rows_that_start_anywhere_and_one_alone_are_read_by_vectors_inside(op: str, shape: tuple[int, int]) -> None:
    """Also rows of half precision of which a program could hold several."""
    for program in programs(operations.OPERATIONS[op], "auto", shape, 1, torch.bfloat16, "sm_90"):
        assert program.compiled.constants["PACK"] == 8 and occurrences(VECTORS, program), str(program)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("form", ["rows", "rows_deferred", "split"])
def test_minima_of_rows_that_start_anywhere_read_vectors_inside(form: str, dtype: Any) -> None:
    (program,) = programs(MIN, form, (77, 50257), 1, dtype, "sm_90")
    assert program.compiled.constants["PACK"] == 16 // dtype.itemsize and not program.spilled
    assert occurrences(VECTORS, program), str(program)


@pytest.mark.sampled(4, "op", "form")
@pytest.mark.parametrize("arch", NAMES)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=name)
def test_a_compiled_kernel_is_what_a_launch_takes_it_for(op: operations.Operation, form: str, arch: str) -> None:
    """Its threads, and its parameters, whose order is that of cuTile's calling convention."""
    for program in taken(op, form, arch):
        code = program.ptx
        assert re.findall(r"\.reqntid (\d+)", code) == [str(program.step.threads)]
        assert ".reqnctapercluster" not in code
        arrays = [known for known in program.step.constants if isinstance(known, ArrayProperties)]
        expected = []
        for array in arrays:
            number = ".u64" if array.index == "int64" else ".u32"
            expected += [".u64", *[number] * (2 * len(array.ones))]
        expected += [".u32"] * len(program.step.arguments)
        head = code[: code.index(".reqntid")]
        assert re.findall(r"\.param (\.\w+)", head) == expected


def test_threads_are_the_compilers_own() -> None:
    """It takes one warp where a tile is one element, whatever it is told."""
    (small,) = programs(MIN, "rows", (1, 1), 1, torch.float32, "sm_90")
    (usual,) = programs(MIN, "rows", (64, 4096), 1, torch.float32, "sm_90")
    assert (small.step.threads, usual.step.threads) == (32, 128)
    for program in (small, usual):
        assert re.findall(r"\.reqntid (\d+)", program.ptx) == [str(program.step.threads)]


def test_parameters_stand_where_the_kernel_reads_them() -> None:
    """Two arrays and a workspace: the kernel's order, and words that begin with the canonical tensors."""
    x, out, room = torch.empty(6, 8), torch.empty(6), torch.empty(4)
    views = (launch.View(x, (6, 1, 8), (8, 0, 1)), launch.View(room, (4,), (1,)), launch.View(out, (6, 1), (1, 0)))
    made = launch.pack_args((x, out), views, (5, 7))
    assert made.words[:2] == (x.data_ptr(), out.data_ptr())
    passed = [made.words[start] for start in made.starts]
    arrays = x.data_ptr(), 6, 1, 8, 8, 0, 1, room.data_ptr(), 4, 1, out.data_ptr(), 6, 1, 1, 0
    assert passed == [*arrays, 5, 7]
    assert (made.starts[0], made.starts[10]) == (0, 1)  # where a launch on other addresses writes them


@pytest.mark.parametrize("n", [1032, 2048, 2053])
def test_a_minimum_of_one_short_block_a_row_unrolls_no_loop(n: int) -> None:
    """Over blocks of 2048 numbers of two bytes, the loop of ``rows`` is unrolled 27 times."""
    (program,) = programs(MIN, "auto", (32768, n), 1, torch.bfloat16, "sm_90")
    assert occurrences(r"ld\.global", program) < 20


def test_large_arrays_have_offsets_of_64_bits() -> None:
    for rows, index in ((1 << 17, "int32"), (1 << 19, "int64")):
        (program,) = programs(SOFTMAX, "fused", (rows, 4096), 1, torch.float32, "sm_90")
        assert {known.index for known in program.step.constants if isinstance(known, ArrayProperties)} == {index}
        numbers = 13 if index == "int32" else 1  # of two arrays, and of a row
        assert occurrences(r"\.param \.u32", program) == numbers
    expanded = torch.empty(1, dtype=torch.int8, device="meta").expand(2, (1 << 32) + 1)
    for form in ("rows", "split"):
        (program,) = bound(MIN, form, expanded, 1, "sm_90")
        assert {known.index for known in program.step.constants if isinstance(known, ArrayProperties)} == {"int64"}


@pytest.mark.parametrize(("op", "form"), FORMS, ids=name)
def test_every_form_has_offsets_of_64_bits(op: operations.Operation, form: str) -> None:
    """Types that a kernel infers from its arrays' sizes agree where these are of 64 bits, also with a loop's bounds."""
    made = []
    for n in (1, 300, 50000):
        for axis, strides in ((1, ((1 << 30) + 42, 1)), (0, ((1 << 30) + 40, 1))):
            shape = (2, n) if axis else (n, 2)
            x = torch.empty_strided(shape, strides, dtype=torch.float16, device="meta")
            with contextlib.suppress(UnsupportedProblemError):
                made += bound(op, form, x, axis, "sm_90")
    indices = [
        known.index for program in made for known in program.step.constants if isinstance(known, ArrayProperties)
    ]
    assert indices.count("int64") >= len(made) > 0


def test_a_launch_has_no_more_programs_than_are_counted_right() -> None:
    """Beyond 2^24 a form refuses, and a chooser takes halves."""
    x = torch.empty(1 << 24, 4096, 1, dtype=torch.float16, device="meta")
    with plan_launches_for_device(ARCHITECTURES["sm_90"]), record_binds() as steps:
        with pytest.raises(GridTooLargeError, match="16777215"):
            registry._registered["cutile", "softmax", "fused"](x, x)
        registry._registered["cutile", "softmax", "auto"](x, x)
        assert len(steps) == 2 and all(step.grid[0] < 1 << 24 for step in steps)
        assert sum(step.grid[0] for step in steps) == 1 << 24


def test_a_kernel_is_shown() -> None:
    (shown,) = inspected("cutile/softmax/auto", (512, 16384), "fp32", arch="sm_90")
    assert shown.implementation == "cutile/softmax/fused" and shown.language == "cuTile"
    assert shown.ptx is not None and ".entry tile_kernel" in shown.ptx and "%arg0" not in shown.ptx
    assert shown.grid == (512, 1, 1) and shown.block == (256, 1, 1) and shown.cluster == (1, 1, 1)
    assert shown.constants["SHAPE"] == "(1, 1, 16384)" and shown.registers and not shown.local_bytes
    assert (shown.sass is None) == (shown.sass_missing is not None)


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(compiler, "_tileiras_version", lambda: "Cuda compilation tools, release 13.2, V13.2.86")
    assert "13.2 is older than 13.4" in compiler.why_cannot_compile()
    with pytest.raises(kernelzoo.BackendUnavailableError, match=r"older than 13\.4"):
        backend.probe()
    monkeypatch.setattr(compiler.cutile, "_find_compiler_bin", absent)
    with pytest.raises(kernelzoo.BackendUnavailableError, match="tileiras, is not installed"):
        backend.probe()


# --- Machine code of sm_90: what waits for what, and how many programs fit -------------------------------------------


def machine_code(program: Program) -> str:
    if not cubin.find_tools("nvdisasm"):
        pytest.skip("no nvdisasm found; pip install nvidia-cuda-nvdisasm brings it")
    functions, missing = cubin.disassembly(program.compiled.binary)
    assert missing is None and len(functions) == 1, missing
    return next(iter(functions.values()))


VECTORS_OF_LONG_ROWS = (("softmax", 2), ("softmax_backward", 4), ("min_backward", 2))


@pytest.mark.parametrize(
    ("op", "form", "shape", "vectors"),
    [
        *(("softmax", "fused", shape, 4) for shape in ((4096, 4096), (4096, 4000), (3001, 5003))),
        *(("softmax_backward", "fused", shape, 4) for shape in ((4096, 4000), (3001, 5003))),
        *(("softmax", "fused", (1 << 18, 256), 2), ("min_backward", "fused", (4096, 4000), 4)),
        ("softmax", "split_two_launches", (5, 3000017), 2),
        *((op, "online", (512, 256000), count) for op, count in VECTORS_OF_LONG_ROWS),
        *((op, "split_two_launches", (16, 262144), count) for op, count in VECTORS_OF_LONG_ROWS),
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
