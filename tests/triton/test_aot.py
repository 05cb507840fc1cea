"""Every Triton kernel, compiled without a device for each architecture; read off the generated code."""

import ast
import re
import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")
if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)

from compiling import bound, occurrences, programs  # noqa: E402  (after the skips)
from one_input import MIN, SOFTMAX  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

import kernelzoo  # noqa: E402
from kernelzoo import operations, tables  # noqa: E402
from kernelzoo.device import ARCHITECTURES  # noqa: E402
from kernelzoo.errors import UnsupportedProblemError  # noqa: E402
from kernelzoo.kernels.shared import cubin  # noqa: E402
from kernelzoo.kernels.triton.min.atomics import Numbers  # noqa: E402
from kernelzoo.kernels.triton.min.columns import COLUMN_PILE  # noqa: E402

NVIDIA = ["sm_80", "sm_90", "sm_100", "sm_120"]
CHIPS = [*NVIDIA, "gfx942"]
SOFTMAX_BACKWARD, MIN_BACKWARD = (operations.OPERATIONS[name] for name in ("softmax_backward", "min_backward"))
SEEDS = {
    SOFTMAX: ("fused", "multi_row", "persistent", "online", "split"),
    MIN: ("rows", "rows_deferred", "atomic_eager", "atomic_batched", "split"),
    SOFTMAX_BACKWARD: ("fused", "online", "split"),
    MIN_BACKWARD: ("fused", "online", "split"),
}
"""Names that take every problem, or all that fit on chip: whatever form it is that they stand for."""
NAMED = [(op, variant) for op, variants in SEEDS.items() for variant in variants]
FORMS = [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations("triton")]
# From Triton 3.9 on a copy keeps its load's eviction policy, as a hint for L2.
COPY = r"cp\.async\.cg\.shared\.global(?:\.L2::cache_hint)? \[[^]]*\], \[[^]]*\], 0x10"
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

# (shape, axis): short rows, middling ones even and odd, the longest on chip, few very long, one giant, other axes.
PROBLEMS = (
    ((1 << 20, 64), 1),
    ((4096, 1000), 1),
    ((4096, 4096), 1),
    ((1823, 781), 1),
    ((3001, 5003), 1),
    ((4096, 12672), 1),
    ((512, 32768), 1),
    ((777, 50257), 1),
    ((4096, 50304), 1),
    ((16, 262144), 1),
    ((1, 1 << 28), 1),
    ((4096, 4096), 0),
    ((300, 4099), 0),
    ((64, 512, 96), 1),
)
SMALL = tuple((shape, axis) for shape in ((16, 4096), (64, 256), (4, 65536)) for axis in (1, 0))
# Of softmax, strips at odd widths do: six registers in float32, where two programs then share an SM.
COLUMNS_OF_MIN = (((8192, 8192), 0), ((16384, 1000), 0), ((1000003, 33), 0), ((16, 4099, 333), 1))


# float16, which is bfloat16 with other conversions, and float64 are looked at on sm_90.
@pytest.mark.sampled(12, "op")
@pytest.mark.parametrize(
    ("arch", "dtype"),
    [(arch, dtype) for arch in CHIPS for dtype in (FLOATS if arch == "sm_90" else FLOATS[:2])],
    ids=str,
)
@pytest.mark.parametrize("op", SEEDS, ids=lambda op: op.name)
def test_auto_spills_no_register(op: operations.Operation, arch: str, dtype: Any) -> None:
    spilled = [
        f"{program.name} {shape} axis {axis}: {program.n_spills} spilled, {program.n_regs} registers"
        for shape, axis in PROBLEMS + (COLUMNS_OF_MIN if op is MIN else ())
        for program in programs(op, "auto", shape, axis, dtype, arch)
        if program.n_spills
    ]
    assert not spilled


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_auto_spills_no_register_on_integers(dtype: Any) -> None:
    for shape, axis in PROBLEMS + COLUMNS_OF_MIN:
        for program in programs(MIN, "auto", shape, axis, dtype, "sm_90"):
            assert not program.n_spills, (program.name, shape, axis)


@pytest.mark.sampled(15, "op", "variant")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("op", "variant"), NAMED, ids=lambda value: getattr(value, "name", value))
def test_every_variant_compiles(op: operations.Operation, variant: str, arch: str, dtype: Any) -> None:
    for shape, axis in (((4096, 4096), 1), ((301, 1009), 0)):
        assert programs(op, variant, shape, axis, dtype, arch)


@pytest.mark.parametrize(
    ("name", "form", "loads", "stores"),
    [
        ("vecdot", "online", 4, 0),
        ("min_backward_counts", "online", 2, 0),
        ("softmax_backward_finish", "blocks", 4, 2),
        ("min_backward_finish", "blocks", 2, 2),
    ],
)
def test_passes_of_a_gradient_move_whole_vectors(name: str, form: str, loads: int, stores: int) -> None:
    """Of 16 bytes, two of each tensor to a thread at once; of even rows and of those with edges."""
    for shape in ((2048, 64128), (777, 50257)):
        (program,) = programs(operations.OPERATIONS[name], form, shape, 1, torch.bfloat16, "sm_90")
        assert not program.n_spills
        assert occurrences(r"ld\.global\S*v4\.b32", program) == loads
        assert occurrences(r"st\.global\S*v4\.b32", program) == stores


def kernel_modules() -> list[ModuleType]:
    """All modules of the operations' folders."""
    return [module for name, module in sys.modules.items() if name.startswith("kernelzoo.kernels.triton.")]


@pytest.mark.sampled(3)  # tests/triton/test_inspection.py compiles each, in one dtype
@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_every_form_compiles_for_some_problem(
    op: operations.Operation, form: str, request: pytest.FixtureRequest
) -> None:
    """With ``--all``, for every problem that it takes; otherwise for the first of each dtype."""
    made = 0
    for dtype in (torch.float32, torch.bfloat16):
        for shape, axis in (*SMALL, *PROBLEMS[3:9], ((1000003, 33), 1), ((499979, 61), 1), ((1000003, 33), 0)):
            try:
                made += len(programs(op, form, shape, axis, dtype, "sm_90"))
            except UnsupportedProblemError:
                continue
            if not request.config.getoption("--all"):
                break
    assert made


def test_every_kernel_begins_by_waiting_for_the_launch_before() -> None:
    """Whatever the device: without it, one that is prepared early reads what the launch before has yet to write."""
    kernels = [
        function
        for module in kernel_modules()
        for name, function in vars(module).items()
        if isinstance(function, JITFunction) and name.endswith("_kernel") and function.module == module.__name__
    ]
    assert len(kernels) >= 20
    for kernel in kernels:
        (definition,) = ast.parse(kernel.src).body
        first = next(s for s in definition.body if not isinstance(getattr(s, "value", None), ast.Constant))
        assert ast.unparse(first) == "await_last_launch()", kernel


@pytest.mark.sampled(4, "op")
@pytest.mark.parametrize(("op", "variant"), NAMED, ids=lambda value: getattr(value, "name", value))
def test_launches_are_prepared_early_and_wait_before_they_touch_memory(
    op: operations.Operation, variant: str, request: pytest.FixtureRequest
) -> None:
    """From compute capability 9.0 on; what a launch asks for and what its kernel does go together everywhere."""
    step = 1 if request.config.getoption("--all") else 4
    for shape, axis in (*PROBLEMS, *COLUMNS_OF_MIN, ((1000003, 33), 1))[1::step]:
        for arch, early in (("sm_90", True), ("sm_120", True), ("sm_80", False), ("gfx942", False)):
            if arch != "sm_90" and shape != (4096, 1000):
                continue
            try:
                made = programs(op, variant, shape, axis, torch.bfloat16, arch)
            except UnsupportedProblemError:
                continue
            for program in made:
                code = program.assembly
                assert bool(getattr(program.metadata, "launch_pdl", False)) == early
                assert code.count("griddepcontrol") == code.count("griddepcontrol.wait") == early
                if early:
                    memory = re.search(r"\b(?:ld|st|red|atom|cp\.async)\b[.\w]*(?:global|shared\.global)", code)
                    assert memory is not None and code.index("griddepcontrol.wait") < memory.start()


@pytest.mark.parametrize("variant", ["fused", "multi_row"])
def test_rows_that_are_held_stay_in_the_l2_cache_longer_than_results(variant: str) -> None:
    for shape in ((1 << 20, 64), (3001, 5003), (4096, 4096), (100003, 127)):
        for program in programs(SOFTMAX, variant, shape, 1, torch.float32, "sm_90"):
            code = program.assembly
            assert "L2::evict_last" in code and "evict_first" not in code
            assert not re.search(r"st\.global[.\w]*(?:cache_hint|\.cs|evict)", code)


def test_both_forms_of_multi_row_are_reached() -> None:
    names = {
        program.name
        for shape in ((1 << 20, 64), (4096, 4096))
        for program in programs(SOFTMAX, "multi_row", shape, 1, torch.float32, "sm_90")
    }
    assert names == {"row_tile_kernel", "row_loop_kernel"}


def test_a_row_too_long_for_the_chip_is_refused() -> None:
    for variant in ("fused", "multi_row", "persistent"):
        with pytest.raises(UnsupportedProblemError, match="must fit on chip"):
            programs(SOFTMAX, variant, (4, 32769), 1, torch.float32, "sm_90")


@pytest.mark.sampled(4, "dtype")
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_persistent_copies_asynchronously(arch: str, dtype: Any) -> None:
    for columns in (1024, 4096, 12672):
        (program,) = programs(SOFTMAX, "persistent", (4096, columns), 1, dtype, arch)
        assert occurrences(r"cp\.async\.c[ag]\.shared\.global", program)
        # Rows wait in shared memory: all stages but the one in registers, unless they don't fit.
        assert program.metadata.shared >= columns * dtype.itemsize
        assert program.metadata.shared <= ARCHITECTURES[arch].shared_per_block


@pytest.mark.sampled(5, "op", "variant")
@pytest.mark.parametrize("columns", [4096, 1000, 12672])
@pytest.mark.parametrize("arch", [*NVIDIA, "gfx942"])
@pytest.mark.parametrize(("op", "variant"), NAMED, ids=lambda value: getattr(value, "name", value))
def test_aligned_rows_are_read_16_bytes_at_a_time(
    op: operations.Operation, variant: str, arch: str, columns: int
) -> None:
    for program in programs(op, variant, (4096, columns), 1, torch.float32, arch):
        if variant == "persistent" and arch in NVIDIA:
            assert occurrences(COPY, program)
        else:
            assert occurrences(r"ld\.global[^;]*\.v4\.b32|(?:global|buffer)_load_dwordx4", program)


@pytest.mark.sampled(2, "op", "variant")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("op", "variant"), NAMED, ids=lambda value: getattr(value, "name", value))
def test_ragged_rows_are_read_16_bytes_at_a_time(op: operations.Operation, variant: str, dtype: Any) -> None:
    for columns in (4097, 5003):
        for program in programs(op, variant, (4096, columns), 1, dtype, "sm_90"):
            if variant == "persistent":
                assert occurrences(COPY, program)
            else:
                assert occurrences(r"ld\.global[^;]*\.v4\.b32", program)
            if op is not MIN:
                assert occurrences(r"st\.global[^;]*\.v4\.b32", program)


def test_lanes_have_each_element_of_a_short_odd_row_once() -> None:
    """No more loads, exponentials and stores than a row has elements, of a power of two or not."""
    (program,) = programs(SOFTMAX, "auto", (499979, 17), 1, torch.float32, "sm_90")
    assert program.name == "lanes_kernel" and not program.n_spills
    for word in (r"ld\.global", r"ex2\.approx", r"st\.global"):
        assert occurrences(word, program) == 5
    assert occurrences(r"shfl\.sync", program) == 2 * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("n", "words"), [(33, 33), (34, 17)])
def test_lanes_have_short_rows_of_half_precision_by_words(n: int, words: int, dtype: Any) -> None:
    """Two rows of odd length, or one of even: as many loads and stores as a lane has words, and those of a last row."""
    (program,) = programs(SOFTMAX, "auto", (1000003, n), 1, dtype, "sm_90")
    assert program.name == "words_kernel" and not program.n_spills
    lanes = next(count for count in (16, 8, 4, 2, 1) if count <= -(-words // 4))
    assert occurrences(r"ld\.global[^;]*\.b32", program) == -(-words // lanes)
    assert occurrences(r"ld\.global[^;]*\.b16", program) == n % 2
    assert occurrences(r"st\.global[^;]*\.b32", program) == -(-words // lanes)


def test_a_thread_has_each_element_of_a_very_short_odd_row_once() -> None:
    """As many loads as a row has elements, and no lane asks another."""
    (program,) = programs(MIN, "auto", (2000003, 7), 1, torch.float32, "sm_90")
    assert program.name == "rows_lanes_kernel" and not program.n_spills
    assert occurrences(r"ld\.global", program) == 7 and occurrences(r"st\.global", program) == 1
    assert not occurrences(r"shfl\.sync", program)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_thread_has_a_short_row_across_memory(dtype: Any) -> None:
    """At any width: vectors of neighbours would leave a row to several threads, which meet through shared memory."""
    for width in (176637, 176640):
        (program,) = programs(MIN, "auto", (6, width), 0, dtype, "sm_90")
        assert program.name == "rows_lanes_kernel" and not program.n_spills
        assert occurrences(r"ld\.global", program) == 6 and not occurrences(r"shfl\.sync", program)
        (program,) = programs(SOFTMAX, "auto", (16, width), 0, dtype, "sm_90")
        assert program.name == "row_tile_kernel" and not program.n_spills
        assert not occurrences(r"shfl\.sync|bar\.sync|[ls][dt]\.shared", program)
    assert programs(MIN, "auto", (49, 176640), 0, dtype, "sm_90")[0].name == "columns_kernel"


@pytest.mark.parametrize(
    ("op", "odd", "whole", "long"), [(SOFTMAX, 17, 20, 129), (MIN, 7, 4, 65)], ids=["softmax", "min"]
)
def test_lanes_are_for_short_rows_that_are_no_whole_vectors(
    op: operations.Operation, odd: int, whole: int, long: int
) -> None:
    shapes = ((2000003, odd), (64, odd), (2000003, whole), (64, long))
    taken = ["lanes_kernel" in programs(op, "auto", shape, 1, torch.float32, "sm_90")[0].name for shape in shapes]
    assert taken == [True, True, False, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("n", "kernel"), [(9, "rows_lanes_kernel"), (61, "rows_ragged_kernel")])
def test_a_minimum_of_short_rows_keeps_nan(n: int, kernel: str, dtype: Any) -> None:
    """As of long ones: what joins elements, and what joins lanes."""
    for program in programs(MIN, "rows_deferred", (499979, n), 1, dtype, "sm_90"):
        assert program.name == kernel
        assert occurrences(r"\bmin\.NaN\.(?:xorsign\.abs\.)?b?f(?:32|16)", program)
        assert not occurrences(r"\bmin\.(?:ftz\.)?b?f(?:16|32)", program)


@pytest.mark.parametrize("parts", [4, 8, 30])
def test_lanes_of_a_merged_row_all_have_the_same_sum(parts: int) -> None:
    """A product fused with what another lane sends is rounded otherwise on each side, and any lane may write."""
    for program in programs(operations.OPERATIONS["softmax_merge"], "rows", (21, parts), 1, torch.float32, "sm_90"):
        code = program.assembly
        sent = set(re.findall(r"shfl\.sync\.bfly\.b32\s+(%\w+)", code))
        assert sent and not sent & set(re.findall(r"fma\.rn\.f32\s+%\w+, %\w+, %\w+, (%\w+);", code))


def test_short_ragged_rows_are_read_by_whole_vectors() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        (program,) = programs(MIN, "auto", (100003, 127), 1, dtype, "sm_90")
        assert program.name == "rows_ragged_kernel"
        assert occurrences(r"ld\.global[^;]*\.v4\.b32", program)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("shape", [(777, 50257), (16, 262144), (5, 3000017)], ids=str)
def test_programs_of_a_split_row_all_run_at_once(arch: str, shape: tuple[int, int]) -> None:
    chip = ARCHITECTURES[arch]
    for dtype in FLOATS:
        x = torch.empty(shape, dtype=dtype, device="meta")
        (program,) = bound(SOFTMAX, "split", x, 1, arch)
        grid = program.step.grid
        assert program.metadata.launch_cooperative_grid
        words = 2 if dtype == torch.float64 else 1  # of 64 bits, to a pair
        assert occurrences(r"atom\.global\.gpu\.relaxed\.exch\.b64", program) == words
        assert occurrences(r"ld\.relaxed\.gpu\.global\.b64", program) == words
        # Registers are given to a warp in pieces of 256, and an SM has threads for 12 programs of 128.
        threads = 32 * program.metadata.num_warps
        registers = -(-program.n_regs // 8) * 8 * threads
        resident = min(chip.registers // registers, chip.threads // threads)
        assert grid[0] <= resident * chip.multiprocessors


@pytest.mark.sampled(8)
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize(
    ("shape", "axis"), [((8192, 8192), 0), ((65536, 256), 0), ((2048, 2048), 0), ((16, 4099, 333), 1)], ids=str
)
def test_programs_of_a_strip_of_columns_all_run_at_once(arch: str, shape: tuple[int, ...], axis: int) -> None:
    chip = ARCHITECTURES[arch]
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.empty(shape, dtype=dtype, device="meta")
        (program,) = bound(SOFTMAX, "auto", x, axis, arch)
        grid = program.step.grid
        assert program.name == "columns_kernel"
        assert program.metadata.launch_cooperative_grid
        # A thread's own words, once: the compiler may not wait for them again in another layout.
        assert len(re.findall(r"tt\.elementwise_inline_asm[^\n]*ld\.relaxed", program.compiled.asm["ttgir"])) == 1
        threads = 32 * program.metadata.num_warps
        registers = -(-program.n_regs // 8) * 8 * threads
        assert grid[0] <= min(chip.registers // registers, chip.threads // threads) * chip.multiprocessors


def test_split_is_two_launches_where_programs_may_not_wait() -> None:
    f32, f64 = torch.float32, torch.float64
    problems = (("gfx942", (16, 262144), 1, f32), ("gfx942", (16384, 1000), 0, f32), ("sm_90", (16384, 1000), 0, f64))
    for arch, shape, axis, dtype in problems:
        x = torch.empty(shape, dtype=dtype, device="meta")
        made = bound(SOFTMAX, "split", x, axis, arch)
        assert len(made) == 2
        assert not any(occurrences(r"atom\.global|global_atomic", program) for program in made)


@pytest.mark.parametrize(("rows", "n", "name"), [(1024, 128256, "online_kernel"), (64, 99991, "split_kernel")])
def test_long_rows_of_float64_are_for_online_if_they_are_many(rows: int, n: int, name: str) -> None:
    (program,) = programs(SOFTMAX, "auto", (rows, n), 1, torch.float64, "sm_90")
    assert program.name == name and program.n_spills == 0
    assert occurrences(r"ld\.global[^;]*\.v2\.b64", program)


def test_assembler_keeps_the_16_byte_loads() -> None:
    (program,) = programs(SOFTMAX, "fused", (4096, 4096), 1, torch.float32, "sm_90")
    functions, missing = cubin.disassembly(program.compiled.kernel)
    assert missing is None
    sass = functions[program.name]
    assert sass.count("LDG.E.EL.128") + sass.count("LDG.E.128") >= 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", NVIDIA)
def test_reading_across_rows_is_vectorised(arch: str) -> None:
    for op, variant in (
        (SOFTMAX, "multi_row"),
        (SOFTMAX, "split"),
        (MIN, "rows_deferred"),
        (MIN, "split"),
    ):
        for program in programs(op, variant, (1024, 4096), 0, torch.float32, arch):
            assert occurrences(r"ld\.global[^;]*\.v4\.b32", program)


@pytest.mark.parametrize(
    ("shape", "axis"), [((16384, 1000), 0), ((1000003, 33), 0), ((16, 4099, 333), 1), ((100, 65537), 0)]
)
def test_a_minimum_reads_columns_by_whole_vectors(shape: tuple[int, ...], axis: int) -> None:
    """At odd widths too, where all but the edge of each column is read so, and no address is kept for every element."""
    (program,) = programs(MIN, "auto", shape, axis, torch.bfloat16, "sm_90")
    assert program.name == "columns_kernel"
    assert occurrences(r"ld\.global[^;]*\.v4\.b32", program) >= COLUMN_PILE


def test_columns_of_a_minimum_are_counted_in_64_bits() -> None:
    (program,) = programs(MIN, "rows_deferred", (2**31 + 4099, 3), 0, torch.int8, "sm_90")
    (loop,) = re.findall(r"scf\.for .*", program.compiled.asm["ttir"])
    assert loop.endswith(": i64 {"), loop


@pytest.mark.sampled(4, "variant")
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("variant", ["fused", "multi_row", "persistent", "online", "split"])
def test_softmax_uses_the_fast_exponential_and_no_float64(variant: str, arch: str) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for program in programs(SOFTMAX, variant, (4096, 4096), 1, dtype, arch):
            assert occurrences(r"ex2\.approx", program)
            assert not occurrences(r"\.f64", program)
            assert occurrences(r"shfl\.sync|redux\.sync", program)


@pytest.mark.parametrize("variant", ["rows", "rows_deferred", "atomic_eager", "atomic_batched", "split"])
def test_min_reduces_across_lanes_without_float64(variant: str) -> None:
    for program in programs(MIN, variant, (16, 262144), 1, torch.float32, "sm_90"):
        assert occurrences(r"shfl\.sync|redux\.sync", program)
        assert occurrences(r"min\.NaN\.f32", program)
        assert not occurrences(r"\.f64", program)


@pytest.mark.sampled(4, "variant", "dtype")
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("variant", ["atomic_eager", "atomic_batched"])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        # A float goes by one of two instructions, chosen by its sign: one atomic for each row all the same.
        (torch.float32, ["relaxed.max.u32", "relaxed.min.s32"]),
        (torch.float64, ["relaxed.max.u64", "relaxed.min.s64"]),
        (torch.bfloat16, ["relaxed.max.u32", "relaxed.min.s32"]),
        (torch.int32, ["relaxed.min.s32"]),
        (torch.int64, ["relaxed.min.s64"]),
        (torch.bool, ["relaxed.min.s32"]),
    ],
    ids=str,
)
def test_atomics_are_one_per_row(variant: str, arch: str, dtype: Any, expected: list[str]) -> None:
    (program,) = programs(MIN, variant, (16, 262144), 1, dtype, arch)
    # An atomic whose old value nobody asks for is a reduction from Triton 3.9 on.
    found = re.findall(r"(?:atom|red)\.global\.gpu\.(\S+)", program.assembly)
    if variant == "atomic_batched":
        assert sorted(found) == expected
    else:  # the compiler may unroll the loop over row tiles
        assert sorted(set(found)) == expected
        assert len(found) in (len(expected), len(expected) * tables.of(Numbers, -1).atomic_tiles)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", NVIDIA)
def test_last_arriver_is_ordered_by_release_and_acquire(arch: str) -> None:
    (program,) = programs(MIN, "split", (16, 262144), 1, torch.float32, arch)
    code = program.assembly
    before, arrival, after = code.partition("atom.global.gpu.acq_rel.add.u32")
    assert arrival
    # The partial result is stored, then all threads meet, then one of them arrives.
    assert re.search(r"st\.global.*bar\.sync", before, re.DOTALL)
    assert re.search(r"bar\.sync.*ld\.global\.cg", after, re.DOTALL)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", CHIPS)
def test_persistent_grid_is_of_the_device_and_capped_at_the_rows(arch: str) -> None:
    processors = ARCHITECTURES[arch].multiprocessors
    large, small, few = (
        programs(SOFTMAX, "persistent", (rows, 4096), 1, torch.float32, arch)[0].step.grid
        for rows in (1 << 20, 1 << 18, 7)
    )
    assert large == small
    assert large[0] % processors == 0
    assert large[0] >= 2 * processors
    assert few == (7,)


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_row_lengths_share_kernels(arch: str) -> None:
    for op in SEEDS:
        names = {
            program.metadata.hash
            for columns in range(2176, 4097, 128)
            for program in programs(op, "auto", (4096, columns), 1, torch.float32, arch)
        }
        assert len(names) <= 2  # lengths that fill the tile may have more warps for it


@pytest.mark.sampled(3, "variant")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("variant", SEEDS[MIN])
def test_a_minimum_keeps_nan(variant: str, dtype: Any) -> None:
    """The interpreter's minimum keeps a NaN whether or not it is told to: here the instruction says it."""
    for columns in (4096, 5003):
        for program in programs(MIN, variant, (4096, columns), 1, dtype, "sm_90"):
            assert occurrences(r"\bmin\.NaN\.(?:xorsign\.abs\.)?b?f(?:32|16)", program)
            assert not occurrences(r"\bmin\.(?:ftz\.)?b?f(?:16|32)", program)
