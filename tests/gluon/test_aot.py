"""Gluon's kernels, compiled without a device for each architecture at the tilings that the bind functions choose."""

import ast
import itertools
import re
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the gluon backend needs the package triton")
if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)

from compiling import Program, occurrences  # noqa: E402  (after the skips)
from compiling import programs as compiled  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

import kernelzoo  # noqa: E402
from kernelzoo import operations, registry  # noqa: E402
from kernelzoo.device import ARCHITECTURES, assumed  # noqa: E402
from kernelzoo.errors import UnsupportedProblemError  # noqa: E402

ARCHITECTURES_HERE = ("sm_80", "sm_90", "sm_100", "sm_120")
OPERATIONS = tuple(operations.OPERATIONS[name] for name in ("softmax", "min", "softmax_backward", "min_backward"))
SOFTMAX, MIN = OPERATIONS[:2]
FORMS = [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations("gluon") if not i.chooses]
FLOATS = (torch.float32, torch.bfloat16, torch.float64)

# Short rows, middling ones even and odd, the longest on chip, few very long, one giant, other axes.
PROBLEMS = (
    ((1 << 20, 64), 1),
    ((1000003, 33), 1),
    ((4096, 1000), 1),
    ((4096, 4096), 1),
    ((1823, 781), 1),
    ((3001, 5003), 1),
    ((4096, 12672), 1),
    ((512, 32768), 1),
    ((777, 50257), 1),
    ((16, 262144), 1),
    ((1, 1 << 28), 1),
    ((8192, 8192), 0),
    ((300, 4099), 0),
    ((64, 512, 96), 1),
)
LOAD, STORE = r"ld\.global[^;]*\.v(?:4\.b32|2\.b64)", r"st\.global[^;]*\.v(?:4\.b32|2\.b64)"
COPY = r"cp\.async\.cg\.shared\.global(?:\.L2::cache_hint)? \[[^]]*\], \[[^]]*\], 0x10"


def programs(op: operations.Operation, form: str, shape: tuple[int, ...], axis: int, dtype: Any, arch: str) -> Any:
    return compiled(op, form, shape, axis, dtype, arch, "gluon")


def described(program: Program) -> str:
    return f"{program.name}: {program.n_spills} spilled, {program.n_regs} registers"


@pytest.mark.sampled(24, "op")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "axis"), PROBLEMS, ids=str)
@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_auto_spills_no_register(op: Any, arch: str, shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    made = programs(op, "auto", shape, axis, dtype, arch)
    assert made and not [described(program) for program in made if program.n_spills]


@pytest.mark.sampled(4, "op", "form")
@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_every_form_reads_and_writes_16_bytes_at_a_time(op: operations.Operation, form: str, arch: str) -> None:
    """Rows of whole vectors, and rows that begin and end inside one; without a spilled register."""
    taken = 0
    for shape, axis, dtype in (
        ((4096, 4096), 1, torch.float32),
        ((1000, 5003), 1, torch.bfloat16),
        ((9973, 67), 1, torch.float32),
        ((9973, 64), 1, torch.bfloat16),
        ((512, 4096), 0, torch.bfloat16),
    ):
        try:
            made = programs(op, form, shape, axis, dtype, arch)
        except UnsupportedProblemError:
            continue
        taken += 1
        assert not [described(program) for program in made if program.n_spills]
        if axis == 0 and form in ("online", "rows", "persistent", "split_grid"):
            continue  # which have no layout for columns
        for program in made:
            assert occurrences(COPY if form == "persistent" else LOAD, program), (shape, program.name)
        if op is not MIN:
            assert occurrences(STORE, made[-1]), (shape, made[-1].name)
    assert taken


def test_every_kernel_begins_by_waiting_for_the_launch_before() -> None:
    registry.import_kernels("gluon", "kernelzoo.kernels.gluon")
    kernels = [
        function
        for key, module in sys.modules.items()
        if key.startswith("kernelzoo.kernels.gluon.")
        for name, function in vars(module).items()
        if isinstance(function, JITFunction) and name.endswith("_kernel") and function.module == module.__name__
    ]
    assert len(kernels) >= 13
    for kernel in kernels:
        (definition,) = ast.parse(kernel.src).body
        assert isinstance(definition, ast.FunctionDef)
        first = next(s for s in definition.body if not isinstance(getattr(s, "value", None), ast.Constant))
        assert ast.unparse(first) == "dev.await_last_launch()", kernel


@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_launches_are_prepared_early_and_wait_before_they_touch_memory(op: operations.Operation, form: str) -> None:
    for (arch, early), axis in itertools.product((("sm_90", True), ("sm_80", False)), (1, 0)):
        try:
            made = programs(op, form, (512, 4096), axis, torch.bfloat16, arch)
        except UnsupportedProblemError:
            assert axis == 0
            continue
        for program in made:
            code = program.assembly
            assert bool(getattr(program.metadata, "launch_pdl", False)) == early
            assert code.count("griddepcontrol.wait") == early
            if early:
                memory = re.search(r"\b(?:ld|st|red|atom|cp\.async)\b[.\w]*(?:global|shared\.global)", code)
                assert memory is not None and code.index("griddepcontrol.wait") < memory.start()


@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_programs_that_wait_for_each_other_all_run_at_once(arch: str, dtype: Any) -> None:
    chip = ARCHITECTURES[arch]
    for shape in ((777, 50257), (1, 1 << 28)):
        (program,) = programs(SOFTMAX, "split_grid", shape, 1, dtype, arch)
        assert program.metadata.launch_cooperative_grid
        words = 2 if dtype == torch.float64 else 1  # of 64 bits, to a pair
        assert occurrences(r"atom\.global\.gpu\.relaxed\.exch\.b64", program) == words
        assert occurrences(r"ld\.relaxed\.gpu\.global\.b64", program) == words
        # Registers are given to a warp in pieces of 256.
        threads = 32 * program.metadata.num_warps
        registers = -(-program.n_regs // 8) * 8 * threads
        resident = min(chip.registers // registers, chip.threads // threads)
        assert 1 < program.step.grid[0] <= resident * chip.multiprocessors


@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
def test_persistent_has_rows_under_way_in_shared_memory(arch: str) -> None:
    for columns in (1024, 12672):
        (program,) = programs(SOFTMAX, "persistent", (4096, columns), 1, torch.float32, arch)
        groups = occurrences(r"cp\.async\.commit_group", program)
        assert occurrences(rf"cp\.async\.wait_group\s+{groups - 1}\b", program)
        assert groups * columns * 4 <= program.metadata.shared <= ARCHITECTURES[arch].shared_per_block


def test_rows_that_are_no_whole_vectors_are_refused_by_persistent() -> None:
    for shape, axis in (((512, 1001), 1), ((512, 1000), 0)):
        with pytest.raises(UnsupportedProblemError, match="16 bytes"):
            programs(SOFTMAX, "persistent", shape, axis, torch.float32, "sm_90")


@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
def test_last_arriver_is_ordered_by_release_and_acquire(arch: str) -> None:
    for shape, axis in (((16, 262144), 1), ((262144, 64), 0)):
        (program,) = programs(MIN, "split", shape, axis, torch.float32, arch)
        before, arrival, after = program.assembly.partition("atom.global.gpu.acq_rel.add.u32")
        assert arrival
        # The partial result is stored, then all threads meet, then one of them arrives.
        assert re.search(r"st\.global.*bar\.sync", before, re.DOTALL)
        assert re.search(r"bar\.sync.*ld\.global\.cg", after, re.DOTALL)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_minimum_keeps_nan(dtype: Any) -> None:
    """The interpreter's minimum keeps a NaN whether or not it is told to: here the instruction says it."""
    for form, shape, axis in (
        ("rows", (4096, 5003), 1),
        ("rows_deferred", (4096, 40000), 1),
        ("split", (16, 262144), 1),
        ("rows_deferred", (512, 4096), 0),
        ("split", (262144, 64), 0),
    ):
        (program,) = programs(MIN, form, shape, axis, dtype, "sm_90")
        assert occurrences(r"\bmin\.NaN\.(?:xorsign\.abs\.)?b?f(?:32|16)", program)
        assert not occurrences(r"\bmin\.(?:ftz\.)?b?f(?:16|32)", program)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64], ids=str)
def test_a_minimum_of_integers_spills_no_register(dtype: Any) -> None:
    for shape, axis in (((4096, 4096), 1), ((3001, 5003), 1), ((16, 262144), 1), ((8192, 8192), 0)):
        for program in programs(MIN, "auto", shape, axis, dtype, "sm_90"):
            assert not program.n_spills, (described(program), shape, axis)


def test_a_row_too_long_for_the_chip_is_refused() -> None:
    for op in OPERATIONS:
        if op is not MIN:
            with pytest.raises(UnsupportedProblemError, match="must fit on chip"):
                programs(op, "fused", (4, 32769), 1, torch.float32, "sm_90")


@pytest.mark.parametrize("arch", ["sm_75", "gfx942"])
def test_other_architectures_are_refused_by_name(arch: str) -> None:
    from kernelzoo.inspect import inspect

    with pytest.raises(kernelzoo.errors.InspectionError, match=f"{arch}.*sm_80"):
        inspect("gluon/softmax/fused", (64, 64), "fp32", arch=arch)


def test_no_form_has_a_launch_for_no_device_at_all() -> None:
    """A described device is what binds ask, in a thread's own context."""
    with assumed(ARCHITECTURES["sm_90"]):
        x = torch.empty(4, 64, 1, device="meta")
        assert registry.chosen("gluon", "softmax", "auto", x, x) == "fused"
