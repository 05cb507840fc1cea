"""Every numba kernel compiled to PTX and to machine code for four architectures, on a machine with no GPU."""

# ruff: noqa: E402 - what is missing is asked first

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

for package in ("numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from ahead import MIN, SOFTMAX, forms
from compiled_steps import Binds, Program

from kernelzoo import registry
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.errors import KernelZooError, UnsupportedProblemError
from kernelzoo.inspect import Request, ask_child
from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import record_binds
from kernelzoo.operations import MAPPED, Operation

BINDS = Binds("numba")
CAPABILITIES = ("sm_80", "sm_90", "sm_100", "sm_120")

# Shape and axis of one row length for each way of holding a row: part of a warp, a warp, a block at its fullest, a
# cluster, and more than that; and one that no vector divides.
SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "short": ((4096, 64), 1), "odd": ((4096, 781), 1), "odd_short": ((4096, 33), 1), "odd_longer": ((4096, 155), 1),
    "block": ((4096, 16384), 1), "cluster": ((4096, 50257), 1), "long": ((64, 524288), 1),
    "across_odd": ((4, 4099, 333), 1), "across": ((512, 4096), 0), "across_long": ((16384, 4096), 0),
}  # fmt: skip
LONG = [shape for shape in SHAPES if shape != "odd_short"]
DTYPES = {MIN: ("float32", "bfloat16", "float64", "int8", "int64")}


def kernels(op: Operation, form: str, dtype: str, shape: str, arch: str) -> tuple[Any, ...]:
    """Those of a launch; none if a form does not take it, or shares a row's work and the row is short."""
    size, axis = SHAPES[shape]
    if form in ("split_cluster", "split_grid") and size[axis] <= 1000:
        return ()
    with plan_launches_for_device(ARCHITECTURES[arch]), record_binds() as steps:
        args = op.meta_arguments(size, dtype, axis, {})
        try:
            op.make_launch(BINDS.bind(op, form), args, op.allocate(args))
        except UnsupportedProblemError:
            return ()
    return tuple((step.kernel, repr(step.constants)) for step in steps)


# Two shapes that have their kernels in common are one. float16, which is bfloat16 with other conversions, and float64
# are sm_90's matter.
CASES = {
    (op, form, dtype, arch, found): (op, form, dtype, shape, arch)
    for op, form in forms("numba")
    for dtype in DTYPES.get(op, ("float32", "bfloat16", "float16", "float64"))
    for shape in (LONG if dtype in ("float32", "bfloat16") else ("odd_short",))
    for arch in (CAPABILITIES if dtype not in ("float16", "float64") else ("sm_90",))
    if (found := kernels(op, form, dtype, shape, arch))
}.values()
# Right, but slower than they might be: two rows at once, or eight vectors of a row with edges, take more than the 64 to
# 128 registers that there are; and for sm_100 and later the loop over a column's vectors is not unrolled.
SLOWER = {
    ("softmax", "fused", "float32", "block", "sm_80"),
    ("softmax", "persistent", "float32", "block", "sm_80"),
    ("softmax", "persistent", "float32", "across", "sm_80"),
    ("softmax", "fused", "bfloat16", "block", "sm_80"),
    *(("softmax", "fused", "bfloat16", "cluster", arch) for arch in ("sm_80", "sm_90", "sm_100")),
    *(("softmax", "split_cluster", "bfloat16", "cluster", arch) for arch in ("sm_90", "sm_100", "sm_120")),
    *(("softmax", "split_cluster", "bfloat16", "block", arch) for arch in ("sm_100", "sm_120")),
    ("softmax", "persistent", "bfloat16", "block", "sm_80"),
    ("softmax", "persistent", "bfloat16", "block", "sm_120"),
    ("softmax_backward", "fused", "float32", "block", "sm_80"),
    ("softmax_backward", "fused", "bfloat16", "block", "sm_80"),
    *(
        (op, "split_grid", dtype, shape, "sm_80")
        for dtype in ("float32", "bfloat16")
        for op, shapes in (("softmax", ("cluster", "long", "across_long")), ("min_backward", ("across_long",)))
        for shape in shapes
    ),
}


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


@pytest.mark.parametrize(
    ("op", "form", "dtype", "shape", "arch"),
    [
        pytest.param(
            *case,
            marks=[
                pytest.mark.sampled(24, "op", "dtype" if case[2] in ("float16", "float64") else "form"),
                *[pytest.mark.xfail(reason="registers are spilled", strict=True)]
                * ((case[0].name, *case[1:]) in SLOWER),
            ],
        )
        for case in CASES
    ],
    ids=["-".join((case[0].name, *case[1:])) for case in CASES],
)
def test_compiles_to_what_it_is_written_for(op: Operation, form: str, dtype: str, shape: str, arch: str) -> None:
    size, axis = SHAPES[shape]
    for program in BINDS.programs(op, form, size, axis, getattr(torch, dtype), arch):
        is_what_it_is_written_for(program, op, form, dtype, shape, arch)


def is_what_it_is_written_for(program: Program, op: Operation, form: str, dtype: str, shape: str, arch: str) -> None:
    made, step, ptx = program.compiled, program.step, program.ptx
    assert ".local" not in ptx, "an array whose index isn't known at compile time has left the registers"
    assert count(r"\.visible \.entry", ptx) == 1
    # What a launch that began early could read too soon, past any order.
    assert "ld.global.nc" not in ptx
    assert count(r"griddepcontrol", ptx) == count(r"\.entry [^{]*\{\s*griddepcontrol\.wait;", ptx)
    assert count(r"griddepcontrol", ptx) == (arch != "sm_80")
    assert "call" not in re.sub(r"//.*", "", ptx).replace(".callprototype", ""), "everything is inlined"

    by_vectors, across = is_read_by_vectors(form, dtype, shape), SHAPES[shape][1] != len(SHAPES[shape][0]) - 1
    # 16 bytes: four words, or two of 64 bits
    words = r"(?:L1::no_allocate\.|L2::cache_hint\.)?v[24]\.[a-z]\d+" if by_vectors else r"\w+"
    if is_copied(op, form, dtype, shape):
        assert count(r"cp\.async\.cg\.shared\.global", ptx) > 0
        assert count(r"cp\.async\.wait_all", ptx) > 0
    assert count(rf"ld\.global\.{words}", ptx) > 0
    # A warp whose lanes belong to 32 rows has nothing to shuffle.
    alone = across and not step.cooperative and step.cluster == 1
    assert count(r"bar\.sync" if alone else r"shfl\.sync", ptx) > 0
    if op is not MIN and dtype != "float64":
        assert count(r"\.f64", ptx) == 0, "a plain Python number has widened float32 arithmetic"
    if op is SOFTMAX:
        if form in ("fused", "multi_row_tile", "persistent", "split_cluster"):  # rows outlast results in the L2 cache
            assert count(r"L2::evict_last", ptx) == count(r"ld\.global\.L2::cache_hint\.v[24]", ptx)
            assert count(r"st\.global\.cs|no_allocate", ptx) == 0
            assert count(r"L2::evict_last", ptx) > 0 or not by_vectors
        if dtype != "float64":
            assert count(r"ex2\.approx\.ftz\.f32", ptx) > 0
        if dtype in ("float16", "bfloat16") and not across:
            kind = "f16x2" if dtype == "float16" else "bf16x2"
            assert count(rf"cvt\.rn\.{kind}\.f32", ptx) > 0
    if form.startswith("atomic"):
        assert count(r"red\.relaxed\.gpu\.global\.min\.s", ptx) > 0
        assert count(r"red\.relaxed\.gpu\.global\.max\.u", ptx) == (
            0 if "int" in dtype else count(r"\.min\.s\d+ \[", ptx)
        )
    if form == "split_arrival":
        assert count(r"atom\.acq_rel\.gpu\.global\.inc\.u32", ptx) == 1
    if step.cluster > 1:
        # A release, which an arrival is unless it says otherwise, would wait for all writes to reach the whole device.
        assert re.findall(r"barrier\.cluster\.arrive[.\w]*", ptx) == ["barrier.cluster.arrive.relaxed.aligned"]
        assert ptx.index("mbarrier.arrive.expect_tx") < ptx.index("barrier.cluster.arrive"), "bytes may come before"
        assert count(r"st\.async\S*\.mbarrier::complete_tx::bytes\.", ptx) == 1
        assert count(r"st\.(?!async)\S*shared::cluster", ptx) == 0, "nobody would count these bytes"
    if form == "split_grid":
        assert count(r"atom\.acq_rel\.gpu\.global\.add\.u64", ptx) == 1
        assert count(r"ld\.acquire\.gpu\.global\.u64", ptx) > 0

    assert made.local_bytes == 0, "registers were spilled"
    if arch != "sm_90" or not cubin.find_tools("nvdisasm"):
        return
    functions, missing = cubin.disassembly(made.binary)
    if missing is not None:
        pytest.skip(missing)
    code = functions[made.symbol]
    for instruction in expected_instructions(op, form, dtype, shape):
        assert count(instruction, code) > 0, instruction
    memory = re.search(r"\b(?:LDG|STG|LDGSTS|ATOM|ATOMG|RED|LD|ST)\b", code)
    assert memory is not None and code.index("ACQBULK") < memory.start(), "memory before the wait"
    assert step.cluster == 1 or "MEMBAR" not in code, "a block waits for its writes to reach the whole device"


def is_read_by_vectors(form: str, dtype: str, shape: str) -> bool:
    """Not if rows are so short that their edges would be most of them; a form of its own has those across memory."""
    size, axis = SHAPES[shape]
    vector = 16 // getattr(torch, dtype).itemsize
    return form == "columns" or (axis == len(size) - 1 and vector > 1 and size[axis] >= 4 * vector)


def is_copied(op: Operation, form: str, dtype: str, shape: str) -> bool:
    """To shared memory, by whole vectors."""
    whole = SHAPES[shape][0][-1] % (16 // getattr(torch, dtype).itemsize) == 0
    return op is SOFTMAX and form in ("split_grid", "split_cluster") and whole and not shape.startswith("across")


def expected_instructions(op: Operation, form: str, dtype: str, shape: str) -> Iterator[str]:
    """What a kernel's machine code for sm_90 must hold."""
    if is_copied(op, form, dtype, shape):
        yield r"LDGSTS\.E\S*\.128"
    if is_read_by_vectors(form, dtype, shape):
        yield r"LDG\.E\S*\.128"
    if not shape.startswith("across"):
        yield r"SHFL\.BFLY"
    if op is SOFTMAX and dtype != "float64":
        yield r"MUFU\.EX2"
    if form.startswith("atomic"):
        yield r"(RED|ATOM)G?\.\S*MIN"
    if form == "split_arrival":
        yield r"ATOMG?\.\S*INC"


@pytest.mark.parametrize(
    ("dtype", "shape", "form"),
    [
        ("bfloat16", (1, 6086459, 16), "split_grid"),  # few columns, too long for clusters
        ("float32", (1, 8050106, 7), "split_grid"),
        ("float32", (1, 8192, 8192), "columns"),
        ("float32", (1, 40000, 8192), "online"),
        ("float32", (8, 333, 777), "fused"),
    ],
)
def test_columns_have_the_form_that_is_for_them(dtype: str, shape: tuple[int, int, int], form: str) -> None:
    x = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    with plan_launches_for_device(ARCHITECTURES["sm_90"]):
        assert registry.choose_variant("numba", "softmax", "auto", x, x) == form


def test_remaining_dtypes_of_min_compile() -> None:
    """Every dtype of min, not only those above, compiles: one kernel each."""
    for dtype in (torch.float16, torch.bool, torch.uint8, torch.int16, torch.int32):
        for program in BINDS.programs(MIN, "rows_deferred", *SHAPES["odd"], dtype, "sm_90"):
            assert count(r"ld\.global\.(?:L1::no_allocate\.|L2::cache_hint\.)?v4", program.ptx) > 0
            assert ".local" not in program.ptx


def test_clusters_send_64_bits() -> None:
    """A pair of float64: what the dtypes above don't send."""
    (made,) = BINDS.programs(SOFTMAX, "split_cluster", *SHAPES["cluster"], torch.float64, "sm_90")
    assert count(r"st\.async\S*::bytes\.v2\.b64 \[", made.ptx) == 1
    assert made.compiled.registers


OTHERS = [i for i in registry.implementations("numba") if i.variant in ("rows", "split") and i.op not in MAPPED]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_operations_read_whole_vectors_and_spill_nothing(dtype: str) -> None:
    shapes = {i: (16, 8192 if "backward" in i.op else 16384) for i in OTHERS}
    asked = [Request("numba", i.op, i.variant, shape, dtype, -1, "sm_90") for i, shape in shapes.items()]
    assert {request.variant for request in asked} == {"rows", "split"}
    for request, kernels in zip(asked, ask_child(asked), strict=True):
        assert not isinstance(kernels, KernelZooError), (request, kernels)
        assert {kernel.local_bytes for kernel in kernels} == {0}, request.id
        assert count(r"ld\.global\.\S*v4\.", kernels[0].ptx) >= 1, request.id
