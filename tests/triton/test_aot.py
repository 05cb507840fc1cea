"""Every Triton kernel, compiled without a device for each architecture; read off the generated code."""

import re
from typing import Any, ClassVar

import pytest
import torch
import triton
from ahead import COPY, LOAD, OPERATIONS, PROBLEMS, STORE, name, occurrences
from compiling import OfTriton, compiled, lanes_disagree, resident

import kernelzoo
from kernelzoo import operations, tables
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared import cubin
from kernelzoo.kernels.triton.min.atomics import Knobs
from kernelzoo.kernels.triton.min.columns import COLUMN_PILE

if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)


NVIDIA = ("sm_80", "sm_90", "sm_100", "sm_120")
CHIPS = (*NVIDIA, "gfx942")
SOFTMAX, MIN, SOFTMAX_BACKWARD, MIN_BACKWARD = OPERATIONS
SEEDS = {
    SOFTMAX: ("fused", "multi_row", "persistent", "online", "split"),
    MIN: ("rows", "rows_deferred", "atomic_eager", "atomic_batched", "split"),
    SOFTMAX_BACKWARD: ("fused", "split"),
    MIN_BACKWARD: ("fused", "split"),
}
"""Names that take every problem, or all that fit on chip: whatever form it is that they stand for."""
NAMED = [(op, variant) for op, variants in SEEDS.items() for variant in variants]
FORMS = [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations("triton")]
F32, BF16, F64 = torch.float32, torch.bfloat16, torch.float64
SMALL = tuple((shape, axis) for shape in ((16, 4096), (64, 256), (4, 65536)) for axis in (1, 0))
# Of softmax, strips at odd widths do spill: six registers in float32, where two programs then share an SM.
COLUMNS_OF_MIN = (((16384, 1000), 0), ((1000003, 33), 0), ((16, 4099, 333), 1))
programs = compiled("triton")


class TestTriton(OfTriton):
    backend, programs = "triton", staticmethod(programs)
    architectures = CHIPS
    forms, no_form_spills = NAMED, False
    problems = (*PROBLEMS, ((4096, 50304), 1))
    integer_problems = (*PROBLEMS, *COLUMNS_OF_MIN)
    vectors = (
        ((4096, 4096), 1, None),
        *(((4096, columns), 1, F32) for columns in (1000, 12672)),
        *(((4096, columns), 1, dtype) for columns in (4097, 5003) for dtype in (F32, BF16)),
        ((1024, 4096), 0, F32),
    )
    load, copy = (rf"{pattern}|(?:global|buffer)_load_dwordx4" for pattern in (LOAD, COPY))
    store = rf"{STORE}|(?:global|buffer)_store_dwordx4"
    first_statement, least_kernels = "await_last_launch()", 20
    waiting = (*PROBLEMS[2:16:4], *COLUMNS_OF_MIN, ((301, 1009), 0))
    early: ClassVar = {"sm_90": True, "sm_120": True, "sm_80": False, "gfx942": False}
    arrivals = (((16, 262144), 1),)
    minima = tuple((form, (4096, columns), 1) for form in SEEDS[MIN] for columns in (4096, 5003)) + tuple(
        ("rows_deferred", (499979, columns), 1) for columns in (9, 61)
    )
    others = ()

    @staticmethod
    def leaves_out(form: str, shape: tuple[int, ...], axis: int) -> bool:
        return axis == 0 and form not in ("multi_row", "split", "rows_deferred")


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
        (program,) = programs(operations.OPERATIONS[name], form, shape, 1, BF16, "sm_90")
        assert not program.spilled
        assert occurrences(r"ld\.global\S*v4\.b32", program) == loads
        assert occurrences(r"st\.global\S*v4\.b32", program) == stores


@pytest.mark.sampled(3)  # tests/triton/test_inspection.py compiles each, in one dtype
@pytest.mark.parametrize(("op", "form"), FORMS, ids=name)
def test_every_form_compiles_for_some_problem(op, form, request) -> None:
    """With ``--all``, for every problem that it takes; otherwise for the first of each dtype."""
    made = 0
    for dtype in (F32, BF16):
        for shape, axis in (*SMALL, *PROBLEMS[3:9], ((1000003, 33), 1), ((499979, 61), 1), ((1000003, 33), 0)):
            try:
                made += len(programs(op, form, shape, axis, dtype, "sm_90"))
            except UnsupportedProblemError:
                continue
            if not request.config.getoption("--all"):
                break
    assert made


@pytest.mark.parametrize("variant", ["fused", "multi_row"])
def test_rows_that_are_held_stay_in_the_l2_cache_longer_than_results(variant: str) -> None:
    for shape in ((1 << 20, 64), (3001, 5003), (4096, 4096), (100003, 127)):
        for program in programs(SOFTMAX, variant, shape, 1, F32, "sm_90"):
            code = program.ptx
            assert "L2::evict_last" in code and "evict_first" not in code
            assert not re.search(r"st\.global[.\w]*(?:cache_hint|\.cs|evict)", code)


def test_both_forms_of_multi_row_are_reached() -> None:
    names = {
        program.name
        for shape in ((1 << 20, 64), (4096, 4096))
        for program in programs(SOFTMAX, "multi_row", shape, 1, F32, "sm_90")
    }
    assert names == {"row_tile_kernel", "row_loop_kernel"}


@pytest.mark.sampled(4, "dtype")
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_persistent_copies_asynchronously(arch: str, dtype: Any) -> None:
    for columns in (1024, 4096, 12672):
        (program,) = programs(SOFTMAX, "persistent", (4096, columns), 1, dtype, arch)
        assert occurrences(r"cp\.async\.c[ag]\.shared\.global", program)
        # Rows wait in shared memory: all stages but the one in registers, unless they don't fit.
        assert program.metadata.shared >= columns * dtype.itemsize
        assert program.metadata.shared <= ARCHITECTURES[arch].shared_per_block


LOADS, STORES, SHUFFLES = r"ld\.global", r"st\.global", r"shfl\.sync"
MADE = [
    # No more loads, exponentials and stores than a row has elements, of a power of two or not.
    (SOFTMAX, (499979, 17), 1, F32, "lanes_kernel", {LOADS: 5, r"ex2\.approx": 5, STORES: 5, SHUFFLES: 2 * 2}),
    (MIN, (2000003, 7), 1, F32, "rows_lanes_kernel", {LOADS: 7, STORES: 1, SHUFFLES: 0}),
    # Two rows of odd length, or one of even: as many loads and stores as a lane has words, and those of a last row.
    *(
        (SOFTMAX, (1000003, n), 1, dtype, "words_kernel", {rf"{LOADS}[^;]*\.b16": last} | dict.fromkeys(words, 5))
        for words in [(rf"{LOADS}[^;]*\.b32", rf"{STORES}[^;]*\.b32")]
        for n, last in ((33, 1), (34, 0))
        for dtype in (BF16, torch.float16)
    ),
    # At any width: vectors of neighbours would leave a row to several threads, which meet through shared memory.
    *(
        made
        for width in (176637, 176640)
        for dtype in (BF16, F32)
        for made in (
            (MIN, (6, width), 0, dtype, "rows_lanes_kernel", {LOADS: 6, SHUFFLES: 0}),
            (SOFTMAX, (16, width), 0, dtype, "row_tile_kernel", {rf"{SHUFFLES}|bar\.sync|[ls][dt]\.shared": 0}),
        )
    ),
    *((MIN, (49, 176640), 0, dtype, "columns_kernel", {}) for dtype in (BF16, F32)),
    *((MIN, (100003, 127), 1, dtype, "rows_ragged_kernel", {rf"{LOADS}[^;]*\.v4\.b32": None}) for dtype in (F32, BF16)),
]
"""What ``auto`` takes, and how often each instruction is in it; None: at least once."""


@pytest.mark.parametrize(("op", "shape", "axis", "dtype", "kernel", "counts"), MADE, ids=name)
def test_short_rows_are_read_and_written_once(op, shape, axis, dtype, kernel, counts) -> None:
    program, *others = programs(op, "auto", shape, axis, dtype, "sm_90")
    assert program.name == kernel and not program.spilled and (not others or not counts)
    for pattern, count in counts.items():
        assert occurrences(pattern, program) == count if count is not None else occurrences(pattern, program)


@pytest.mark.parametrize(
    ("op", "odd", "whole", "long"), [(SOFTMAX, 17, 20, 129), (MIN, 7, 4, 65)], ids=["softmax", "min"]
)
def test_lanes_are_for_short_rows_that_are_no_whole_vectors(op, odd, whole, long) -> None:
    shapes = ((2000003, odd), (64, odd), (2000003, whole), (64, long))
    taken = ["lanes_kernel" in programs(op, "auto", shape, 1, F32, "sm_90")[0].name for shape in shapes]
    assert taken == [True, True, False, False]


@pytest.mark.parametrize("parts", [4, 8, 30])
def test_lanes_of_a_merged_row_all_have_the_same_sum(parts: int) -> None:
    """A product fused with what another lane sends is rounded otherwise on each side, and any lane may write."""
    for program in programs(operations.OPERATIONS["softmax_merge"], "rows", (21, parts), 1, F32, "sm_90"):
        code = program.ptx
        sent = set(re.findall(r"shfl\.sync\.bfly\.b32\s+(%\w+)", code))
        assert sent and not sent & set(re.findall(r"fma\.rn\.f32\s+%\w+, %\w+, %\w+, (%\w+);", code))


@pytest.mark.parametrize(("rows", "n", "name"), [(1024, 128256, "online_kernel"), (64, 99991, "split_kernel")])
def test_long_rows_of_float64_are_for_online_if_they_are_many(rows: int, n: int, name: str) -> None:
    (program,) = programs(SOFTMAX, "auto", (rows, n), 1, F64, "sm_90")
    assert program.name == name and program.spilled == 0
    assert occurrences(r"ld\.global[^;]*\.v2\.b64", program)


def test_assembler_keeps_the_16_byte_loads() -> None:
    (program,) = programs(SOFTMAX, "fused", (4096, 4096), 1, F32, "sm_90")
    functions, missing = cubin.disassembly(program.compiled.kernel)
    assert missing is None
    sass = functions[program.name]
    assert sass.count("LDG.E.EL.128") + sass.count("LDG.E.128") >= 4


@pytest.mark.parametrize(("shape", "axis"), [*COLUMNS_OF_MIN, ((100, 65537), 0)])
def test_a_minimum_reads_columns_by_whole_vectors(shape: tuple[int, ...], axis: int) -> None:
    """At odd widths too, where all but the edge of each column is read so, and no address is kept for every element."""
    (program,) = programs(MIN, "auto", shape, axis, BF16, "sm_90")
    assert program.name == "columns_kernel" and not program.spilled
    assert occurrences(r"ld\.global[^;]*\.v4\.b32", program) >= COLUMN_PILE


def test_columns_of_a_minimum_are_counted_in_64_bits() -> None:
    (program,) = programs(MIN, "rows_deferred", (2**31 + 4099, 3), 0, torch.int8, "sm_90")
    (loop,) = re.findall(r"scf\.for .*", program.compiled.asm["ttir"])
    assert loop.endswith(": i64 {"), loop


@pytest.mark.sampled(4, "variant")
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("variant", ["fused", "multi_row", "persistent", "online", "split"])
def test_softmax_uses_the_fast_exponential_and_no_float64(variant: str, arch: str) -> None:
    for dtype in (F32, BF16, torch.float16):
        for program in programs(SOFTMAX, variant, (4096, 4096), 1, dtype, arch):
            assert occurrences(r"ex2\.approx", program)
            assert not occurrences(r"\.f64", program)
            assert occurrences(r"shfl\.sync|redux\.sync", program)


@pytest.mark.parametrize("variant", ["rows", "rows_deferred", "atomic_eager", "atomic_batched", "split"])
def test_min_reduces_across_lanes_without_float64(variant: str) -> None:
    for program in programs(MIN, variant, (16, 262144), 1, F32, "sm_90"):
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
        (F32, ["relaxed.max.u32", "relaxed.min.s32"]),
        (F64, ["relaxed.max.u64", "relaxed.min.s64"]),
        (BF16, ["relaxed.max.u32", "relaxed.min.s32"]),
        (torch.int32, ["relaxed.min.s32"]),
        (torch.int64, ["relaxed.min.s64"]),
        (torch.bool, ["relaxed.min.s32"]),
    ],
    ids=str,
)
def test_atomics_are_one_per_row(variant: str, arch: str, dtype: Any, expected: list[str]) -> None:
    (program,) = programs(MIN, variant, (16, 262144), 1, dtype, arch)
    # An atomic whose old value nobody asks for is a reduction from Triton 3.9 on.
    found = re.findall(r"(?:atom|red)\.global\.gpu\.(\S+)", program.ptx)
    if variant == "atomic_batched":
        assert sorted(found) == expected
    else:  # the compiler may unroll the loop over row tiles
        assert sorted(set(found)) == expected
        assert len(found) in (len(expected), len(expected) * tables.of(Knobs, -1).atomic_tiles)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", CHIPS)
def test_persistent_grid_is_of_the_device_and_capped_at_the_rows(arch: str) -> None:
    processors = ARCHITECTURES[arch].multiprocessors
    large, small, few = (
        programs(SOFTMAX, "persistent", (rows, 4096), 1, F32, arch)[0].step.grid for rows in (1 << 20, 1 << 18, 7)
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
            for program in programs(op, "auto", (4096, columns), 1, F32, arch)
        }
        assert len(names) <= 2  # lengths that fill the tile may have more warps for it


@pytest.mark.sampled(12, "op")
@pytest.mark.parametrize("arch", NVIDIA)
@pytest.mark.parametrize("dtype", [F32, BF16, F64], ids=str)
@pytest.mark.parametrize(
    ("op", "shape", "axis"),
    [
        *((SOFTMAX, shape, 1) for shape in ((777, 50257), (16, 262144), (5, 3000017))),
        *((SOFTMAX, shape, 0) for shape in ((8192, 8192), (65536, 256), (2048, 2048))),
        (SOFTMAX, (16, 4099, 333), 1),
        *((op, shape, 1) for op in OPERATIONS[2:] for shape in ((777, 50257), (5, 3000017))),
        *((op, shape, 0) for op in OPERATIONS[2:] for shape in ((4096, 4096), (1000003, 33))),
    ],
    ids=name,
)
def test_programs_of_a_shared_row_all_run_at_once(op: Any, shape: Any, axis: int, dtype: Any, arch: str) -> None:
    strip = op is SOFTMAX and (axis == 0 or len(shape) > 2)
    if strip and dtype is F64:
        pytest.skip("two launches, as test_split_is_two_launches_where_programs_may_not_wait shows")
    (program,) = programs(op, "auto" if strip else "split", shape, axis, dtype, arch)
    assert program.metadata.launch_cooperative_grid
    assert program.step.grid[0] <= resident(program, ARCHITECTURES[arch])
    assert not strip or program.name == "columns_kernel"
    exchanges = occurrences(r"atom\.global\.gpu\.relaxed\.exch\.b64", program)
    if strip or op is not SOFTMAX:
        # A thread's own words, once: the compiler may not wait for them again in another layout.
        assert len(re.findall(r"tt\.elementwise_inline_asm[^\n]*ld\.relaxed", program.compiled.asm["ttgir"])) == 1
        assert exchanges
    else:
        words = 2 if dtype is F64 else 1  # of 64 bits, to a pair
        assert exchanges == occurrences(r"ld\.relaxed\.gpu\.global\.b64", program) == words


@pytest.mark.parametrize(
    ("op", "arch", "shape", "axis", "dtype"),
    [
        *((op, "gfx942", (16, 262144), 1, F32) for op in (SOFTMAX, *OPERATIONS[2:])),
        *((op, "gfx942", (16384, 1000), 0, F32) for op in (SOFTMAX, *OPERATIONS[2:])),
        (SOFTMAX, "sm_90", (16384, 1000), 0, F64),
    ],
    ids=name,
)
def test_split_is_two_launches_where_programs_may_not_wait(op, arch, shape, axis, dtype) -> None:
    made = programs(op, "split", shape, axis, dtype, arch)
    assert len(made) == 2
    assert not any(occurrences(r"atom\.global|global_atomic", program) for program in made)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_vocabularies_are_read_once(dtype: Any) -> None:
    """A program holds its part of both inputs: no block of it is read twice."""
    for shape in ((2048, 128256), (8192, 50257)):
        (program,) = programs(SOFTMAX_BACKWARD, "auto", shape, 1, dtype, "sm_90")
        assert program.name == "split_kernel" and program.spilled == 0
        assert program.step.constants[-2] == "0"  # BLOCK


@pytest.mark.parametrize("axis", [0, 1])
def test_minima_are_counted_as_integers_and_divided_to_the_nearest(axis: int) -> None:
    for variant in ("split", "fused"):
        for program in programs(MIN_BACKWARD, variant, (4096, 4096), axis, F32, "sm_90"):
            assert occurrences(r"div\.rn\.f32", program) and not occurrences(r"div\.full|\.f64", program)


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(
    ("op", "form", "shape", "axis"),
    [
        ("rms_norm_backward", "rows", (5003, 21), 0),
        ("layer_norm_backward", "rows", (5003, 21), 0),
        ("softmax", "split", (299, 1030), 0),
        ("softmax_pairs", "online", (3, 2049, 37), 1),
    ],
)
def test_lanes_have_one_sum_that_any_of_them_may_write(
    op: str, form: str, shape: tuple[int, ...], axis: int, dtype: Any
) -> None:
    made = programs(operations.OPERATIONS[op], form, shape, axis, dtype, "sm_90")
    assert any("shfl.sync.bfly" in program.ptx for program in made)
    assert not any(map(lanes_disagree, made))
