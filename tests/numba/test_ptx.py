"""Every numba kernel compiled to PTX and to machine code for four architectures, on a machine with no GPU.

It shows that the kernels are legal there, keep their rows in registers, and hold the instructions they are written for.
It runs nothing: results are test_simulator.py's matter, and a GPU's.
"""

# ruff: noqa: E402 - what Numba is at import depends on the simulator, so that is asked first

import os
import re
from collections.abc import Iterator

import pytest
import torch

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    pytest.skip("the simulator is on, and compiles nothing", allow_module_level=True)

for package in ("numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from kernelzoo.kernels import cubin
from kernelzoo.kernels.numba import min as minima
from kernelzoo.kernels.numba import softmax
from kernelzoo.kernels.numba.dtypes import itemsize
from kernelzoo.kernels.numba.inspection import loaded
from kernelzoo.kernels.numba.launch import Source, to_cubin, to_ptx
from kernelzoo.kernels.numba.view import View, view

CAPABILITIES = [(8, 0), (9, 0), (10, 0), (12, 0)]

# One row length for each way of holding a row: part of a warp, a warp, a block at its fullest, a cluster; and one that
# no vector divides.
SHAPES = {
    "short": (4096, 64, 1),
    "odd": (4096, 781, 1),
    "block": (4096, 16384, 1),
    "cluster": (4096, 50257, 1),
    "across": (1, 512, 4096),
}


def look(shape: tuple[int, int, int], dtype: str, op: str) -> View:
    x = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    return view(x, torch.empty_like(x) if op == "softmax" else torch.empty_like(x[:, 0]))


def softmax_kernels(v: View) -> dict[str, Source]:
    """The kernels that this problem's variants would launch."""
    found = {}
    for name, kernel, tiling in (
        ("fused", softmax.fused_kernel, softmax.fused_tiling(v)),
        ("multi_row", softmax.multi_row_kernel, softmax.multi_row_tiling(v)),
        ("persistent", softmax.persistent_kernel, softmax.persistent_tiling(v)),
        ("online", softmax.online_kernel, softmax.streaming_tiling(v)),
        ("partial", softmax.partial_kernel, softmax.streaming_tiling(v)),
        ("merge", softmax.merge_kernel, softmax.streaming_tiling(v)),
    ):
        if tiling is not None:
            found[name] = kernel(v.dtype, tiling)
    if (held := softmax.cluster_tiling(v)) is not None:
        found["cluster"] = softmax.cluster_kernel(v.dtype, *held)
    return found


def min_kernels(v: View) -> dict[str, Source]:
    found = {
        "rows": minima.rows_kernel(v.dtype, minima.rows_tiling(v)),
        "rows_deferred": minima.rows_deferred_kernel(v.dtype, minima.rows_tiling(v)),
        "atomic_eager": minima.atomic_eager_kernel(v.dtype, minima.slab_tiling(v)),
        "atomic_batched": minima.atomic_batched_kernel(v.dtype, minima.slab_tiling(v)),
        "split": minima.split_kernel(v.dtype, minima.split_tiling(v)),
        "fill": minima.fill_kernel(v.dtype),
    }
    if itemsize(v.dtype) < 4:
        found["narrow"] = minima.narrow_kernel(v.dtype)
    return found


ALL = {
    (op, dtype, shape, name): source
    for op, dtypes, kernels in (
        ("softmax", ("float32", "bfloat16", "float16", "float64"), softmax_kernels),
        ("min", ("float32", "bfloat16", "float64", "int8", "int64"), min_kernels),
    )
    for dtype in dtypes
    for shape, size in SHAPES.items()
    if dtype in ("float32", "bfloat16") or shape == "odd"
    for name, source in kernels(look(size, dtype, op)).items()
}
# Two shapes that have a tiling in common have a kernel in common.
KERNELS = {key: source for source, key in {source: key for key, source in ALL.items()}.items()}


def fullest() -> set[tuple[str, str, str, str]]:
    """Of kernels that differ in the lanes of a row and the elements of a thread alone, the one with the most of both:
    that of the last shape, since shapes grow."""
    found = {}
    for op, dtype, shape, name in KERNELS:
        v = look(SHAPES[shape], dtype, op)
        stacked = shape == "short" and name in ("multi_row", "rows_deferred")  # several rows to a thread
        found[op, dtype, name, v.edges, v.across, stacked] = (op, dtype, shape, name)
    return set(found.values())


# float16, which is bfloat16 with other conversions, and float64 are sm_90's matter.
KINDS = fullest()
CASES = [
    (*key, capability)
    for key, source in KERNELS.items()
    for capability in CAPABILITIES
    if key in KINDS
    and (capability == (9, 0) or key[1] not in ("float16", "float64"))
    and (source.cluster == 1 or capability >= (9, 0))
]
# Two rows at once take more than the 128 registers that a thread of 512 has there. Right, but slower than it might be.
SPILLED = {
    ("softmax", "float32", "block", "persistent", (8, 0)),
    ("softmax", "float32", "block", "persistent", (12, 0)),
    ("softmax", "float32", "across", "persistent", (8, 0)),
    ("softmax", "bfloat16", "block", "persistent", (8, 0)),
}


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "name", "capability"),
    [
        pytest.param(*case, marks=[pytest.mark.xfail(reason="registers are spilled", strict=True)] * (case in SPILLED))
        for case in CASES
    ],
    ids=["-".join((*case[:4], "sm_{}{}".format(*case[4]))) for case in CASES],
)
def test_compiles_to_what_it_is_written_for(
    op: str, dtype: str, shape: str, name: str, capability: tuple[int, int]
) -> None:
    source = KERNELS[op, dtype, shape, name]
    ptx = to_ptx(source, capability)
    assert ".local" not in ptx, "an array whose index isn't known at compile time has left the registers"
    assert count(r"\.visible \.entry", ptx) == 1
    assert "call" not in re.sub(r"//.*", "", ptx).replace(".callprototype", ""), "everything is inlined"

    v = look(SHAPES[shape], dtype, op)
    if name not in ("fill", "narrow"):
        words = r"v[24]\.[a-z]\d+" if v.vec > 1 else r"\w+"  # 16 bytes: four words, or two of 64 bits
        assert count(rf"ld\.global\.(?:nc\.)?{words}", ptx) > 0
        # A warp whose lanes belong to 32 rows has nothing to shuffle: warps meet in shared memory.
        assert count(r"bar\.sync" if v.across else r"shfl\.sync", ptx) > 0
    if op == "softmax":
        if dtype != "float64":
            assert count(r"ex2\.approx\.ftz\.f32", ptx) > 0
            assert count(r"\.f64", ptx) == 0, "a plain Python number has widened float32 arithmetic"
        if dtype in ("float16", "bfloat16") and name != "partial" and v.vec > 1 and not v.across:
            kind = "f16x2" if dtype == "float16" else "bf16x2"
            assert count(rf"cvt\.rn\.{kind}\.f32", ptx) > 0
    if name.startswith("atomic"):
        assert count(r"red\.relaxed\.gpu\.global\.min\.s", ptx) > 0
        assert count(r"red\.relaxed\.gpu\.global\.max\.u", ptx) == (
            0 if "int" in dtype else count(r"\.min\.s\d+ \[", ptx)
        )
    if name == "split":
        assert count(r"atom\.acq_rel\.gpu\.global\.inc\.u32", ptx) == 1
    if name == "cluster":
        assert count(r"mapa\.shared::cluster", ptx) == 2 and count(r"barrier\.cluster\.arrive", ptx) == 2

    made = loaded(source, ptx, to_cubin(ptx, capability))
    taken = cubin.resources(made.cubin, made.symbol, 10 * capability[0] + capability[1])
    assert taken.local_bytes == 0, "registers were spilled"
    if capability != (9, 0) or not cubin.tools("nvdisasm"):
        return
    functions, missing = cubin.disassembly(made.cubin)
    if missing is not None:
        pytest.skip(missing)
    for instruction in expected_instructions(op, dtype, name, v):
        assert count(instruction, functions[made.symbol]) > 0, instruction


def expected_instructions(op: str, dtype: str, name: str, v: View) -> Iterator[str]:
    """What a kernel's machine code for sm_90 must hold."""
    if name not in ("fill", "narrow"):
        if v.vec > 1:
            yield r"LDG\.E\S*\.128"
        if not v.across:
            yield r"SHFL\.BFLY"
    if op == "softmax" and dtype != "float64":
        yield r"MUFU\.EX2"
    if name.startswith("atomic"):
        yield r"(RED|ATOM)G?\.\S*MIN"
    if op == "min" and name == "split":
        yield r"ATOMG?\.\S*INC"


def test_remaining_dtypes_of_min_compile() -> None:
    """Every dtype of min, not only those above, compiles: one kernel each."""
    for dtype in ("float16", "bool", "uint8", "int16", "int32"):
        v = look(SHAPES["odd"], dtype, "min")
        ptx = to_ptx(minima.rows_deferred_kernel(v.dtype, minima.rows_tiling(v)), (9, 0))
        assert ".local" not in ptx and count(r"ld\.global\.v4", ptx) > 0
