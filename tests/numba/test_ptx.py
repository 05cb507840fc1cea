"""Every numba kernel compiled to PTX and to machine code for four architectures, on a machine with no GPU."""

# ruff: noqa: E402 - what is missing is asked first

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

for package in ("numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from kernelzoo import registry
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import KernelZooError
from kernelzoo.inspect import Request, ask
from kernelzoo.kernels.numba import min as minima
from kernelzoo.kernels.numba import min_backward, softmax, softmax_backward
from kernelzoo.kernels.numba.source import Source, inspected, to_ptx
from kernelzoo.kernels.numba.tiling import View, short_tiling, vector_columns, view
from kernelzoo.kernels.shared import cubin
from kernelzoo.operations import MAPPED

registry.import_kernels("numba", "kernelzoo.kernels.numba")  # every form is then a name of its operation's package

H200 = ARCHITECTURES["sm_90"]
SOFTMAX, MIN = softmax.choose.Knobs(), minima.choose.Knobs()
CAPABILITIES = [(8, 0), (9, 0), (10, 0), (12, 0)]

# One row length for each way of holding a row: part of a warp, a warp, a block at its fullest, a cluster; and one that
# no vector divides.
SHAPES = {
    "odd_shortest": (4096, 5, 1), "short": (4096, 64, 1), "odd": (4096, 781, 1), "odd_short": (4096, 33, 1),
    "odd_longer": (4096, 155, 1), "block": (4096, 16384, 1), "cluster": (4096, 50257, 1),
    "across_flat": (1, 4096, 33), "across_odd": (4, 4099, 333), "across": (1, 512, 4096),
}  # fmt: skip


def look(shape: tuple[int, int, int], dtype: str, op: str) -> View:
    x = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    y = torch.empty_like(x[:, 0])
    others = {"softmax_backward": (x,), "min_backward": (y, y)}.get(op, ())
    return view(H200, x, *others, out=y if op == "min" else torch.empty_like(x))


def softmax_kernels(v: View) -> dict[str, Source]:
    """The kernels that this problem's forms would launch."""
    found = {}
    for name, kernel, tiling in (
        ("fused", softmax.fused.fused_kernel, softmax.fused.fused_tiling(v, SOFTMAX)),
        ("multi_row", softmax.multi_row_tile.multi_row_tile_kernel, short_tiling(v)),
        ("persistent", softmax.persistent.persistent_kernel, softmax.persistent.persistent_tiling(v, SOFTMAX)),
        ("online", softmax.online.online_kernel, softmax.online.online_tiling(v)),
    ):
        if tiling is not None:
            found[name] = kernel(v.dtype, tiling)
    c = vector_columns(v)
    if c is not None and (shape := softmax.columns.shape(c, H200)) is not None:
        for blocks, name in ((1, "columns"), (2, "columns_cluster")):
            found[name] = softmax.columns.columns_kernel(v.dtype, *shape[:2], blocks > 1)
    if not v.across and v.n > 1000:
        found["cluster"] = softmax.split_cluster.cluster_kernel(v.dtype, softmax.split_cluster.held_tiling(v, 4))
    if v.n > 1000:
        found["grid"] = softmax.split_grid.grid_kernel(v.dtype, softmax.split_grid.grid_tiling(v))
    return found


def min_kernels(v: View) -> dict[str, Source]:
    by_rows, by_slabs = minima.row_tiles.rows_tiling(v, MIN), minima.atomics.slab_tiling(v)
    found = {
        "rows": minima.rows.rows_kernel(v.dtype, by_rows),
        "rows_deferred": minima.rows_deferred_block.rows_deferred_kernel(v.dtype, by_rows),
        "atomic_eager": minima.atomic_eager.atomic_eager_kernel(v.dtype, by_slabs),
        "atomic_batched": minima.atomic_batched.atomic_batched_kernel(v.dtype, by_slabs),
        "split": minima.split_arrival.split_kernel(v.dtype, minima.split_arrival.split_tiling(v)),
    }
    if minima.columns.cut(v, H200.multiprocessors) is not None:
        found["columns"] = minima.columns.columns_kernel(v.dtype, minima.row_tiles.deep(v.dtype, v.whole_vector))
    return found


def gradient_kernels(forms: Any, v: View) -> dict[str, Source]:
    """Those of the gradient of a softmax, or of a minimum, which have the same forms."""
    found = {"online": forms.online.online_kernel(v.dtype, forms.online.online_tiling(v))}
    if (tiling := forms.fused.fused_tiling(v)) is not None:
        found["fused"] = forms.fused.fused_kernel(v.dtype, tiling)
    if v.n > 1000 and forms is min_backward:
        found["grid"] = forms.split_grid.grid_kernel(v.dtype, forms.split_grid.grid_tiling(v))
    if v.n > 1000 and forms is softmax_backward:
        for name, held in (("cluster", True), ("cluster_twice", False)):
            found[name] = forms.split_cluster.cluster_kernel(v.dtype, forms.split_cluster.cluster_tiling(v, held), held)
    return found


FLOATS = ("float32", "bfloat16", "float16", "float64")
ALL = {
    (op, dtype, shape, name): source
    for op, dtypes, kernels in (
        ("softmax_backward", FLOATS, partial(gradient_kernels, softmax_backward)),
        ("min_backward", FLOATS, partial(gradient_kernels, min_backward)),
        ("softmax", FLOATS, softmax_kernels),
        ("min", ("float32", "bfloat16", "float64", "int8", "int64"), min_kernels),
    )
    for dtype in dtypes
    for shape, size in SHAPES.items()
    if dtype in ("float32", "bfloat16") or shape in ("odd", "odd_short")
    for name, source in kernels(look(size, dtype, op)).items()
}
# Two shapes that have a tiling in common have a kernel in common.
KERNELS = {key: source for source, key in {source: key for key, source in ALL.items()}.items()}


def fullest() -> set[tuple[str, str, str, str]]:
    """Of kernels that differ in a row's lanes and a thread's elements alone, the last: shapes grow."""
    found = {}
    for op, dtype, shape, name in KERNELS:
        v = look(SHAPES[shape], dtype, op)
        several = name in ("multi_row", "rows_deferred") or (name == "fused" and op != "softmax")  # rows to a thread
        found[op, dtype, name, v.edges, v.across, several and shape == "short"] = (op, dtype, shape, name)
    return set(found.values())


CLUSTERS = ("cluster", "cluster_twice", "columns_cluster")  # sm_90 and later
BY_VECTORS = ("columns", "columns_cluster")  # which lie across the rows
COPIED = ("grid", "cluster")  # to shared memory, by vectors
MEETING = ("grid",)  # blocks that run at once wait for each other, once
# float16, which is bfloat16 with other conversions, and float64 are sm_90's matter.
KINDS = fullest()
CASES = [
    (*key, capability)
    for key, source in KERNELS.items()
    for capability in CAPABILITIES
    if key in KINDS
    and (capability == (9, 0) or key[1] not in ("float16", "float64"))
    and (key[3] not in CLUSTERS or capability >= (9, 0))
]
# Right, but slower than they might be: two rows at once, or eight vectors of a row with edges, take more than the 64 to
# 128 registers that there are; and for sm_100 and later the loop over a column's vectors is not unrolled.
SLOWER = {
    ("softmax", "float32", "block", "fused", (8, 0)),
    ("softmax", "float32", "block", "persistent", (8, 0)),
    ("softmax", "float32", "across", "persistent", (8, 0)),
    ("softmax", "bfloat16", "block", "fused", (8, 0)),
    ("softmax", "bfloat16", "cluster", "fused", (8, 0)),
    ("softmax", "bfloat16", "cluster", "fused", (9, 0)),
    ("softmax", "bfloat16", "cluster", "fused", (10, 0)),
    ("softmax", "bfloat16", "block", "persistent", (8, 0)),
    ("softmax", "bfloat16", "block", "persistent", (12, 0)),
    ("softmax_backward", "float32", "block", "fused", (8, 0)),
    ("softmax_backward", "bfloat16", "block", "fused", (8, 0)),
    *(
        ("softmax", dtype, shape, "grid", (8, 0))
        for dtype in ("float32", "bfloat16")
        for shape in ("block", "cluster", "across_odd")
    ),
}


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "name", "capability"),
    [
        pytest.param(
            *case,
            marks=[
                pytest.mark.sampled(24, "op", "dtype" if case[1] in ("float16", "float64") else "name"),
                *[pytest.mark.xfail(reason="registers are spilled", strict=True)] * (case in SLOWER),
            ],
        )
        for case in CASES
    ],
    ids=["-".join((*case[:4], "sm_{}{}".format(*case[4]))) for case in CASES],
)
def test_compiles_to_what_it_is_written_for(op, dtype, shape, name, capability) -> None:
    made = inspected(KERNELS[op, dtype, shape, name], capability)
    ptx = made.ptx
    assert ".local" not in ptx, "an array whose index isn't known at compile time has left the registers"
    assert count(r"\.visible \.entry", ptx) == 1
    # What a launch that began early could read too soon, past any order.
    assert "ld.global.nc" not in ptx
    assert count(r"griddepcontrol", ptx) == count(r"\.entry [^{]*\{\s*griddepcontrol\.wait;", ptx)
    assert count(r"griddepcontrol", ptx) == (capability >= (9, 0))
    assert "call" not in re.sub(r"//.*", "", ptx).replace(".callprototype", ""), "everything is inlined"

    v = look(SHAPES[shape], dtype, op)
    wide = is_wide(v)
    # 16 bytes: four words, or two of 64 bits
    words = r"(?:L1::no_allocate\.|L2::cache_hint\.)?v[24]\.[a-z]\d+" if wide or name in BY_VECTORS else r"\w+"
    if op == "softmax" and name in COPIED and v.whole:
        assert count(r"cp\.async\.cg\.shared\.global", ptx) > 0
        assert count(r"cp\.async\.wait_all", ptx) > 0
    assert count(rf"ld\.global\.{words}", ptx) > 0
    # A warp whose lanes belong to 32 rows has nothing to shuffle.
    across = v.across and name not in (*MEETING, *CLUSTERS)
    assert count(r"bar\.sync" if across else r"shfl\.sync", ptx) > 0
    if op.endswith("_backward") and dtype != "float64":
        assert count(r"\.f64", ptx) == 0, "a plain Python number has widened float32 arithmetic"
    if op == "softmax":
        if name in ("fused", "multi_row", "persistent", "cluster"):  # rows stay in the L2 cache longer than results
            assert count(r"L2::evict_last", ptx) == count(r"ld\.global\.L2::cache_hint\.v[24]", ptx)
            assert count(r"st\.global\.cs|no_allocate", ptx) == 0
            assert count(r"L2::evict_last", ptx) > 0 or not wide
        if dtype != "float64":
            assert count(r"ex2\.approx\.ftz\.f32", ptx) > 0
            assert count(r"\.f64", ptx) == 0, "a plain Python number has widened float32 arithmetic"
        if dtype in ("float16", "bfloat16") and v.vec > 1 and not v.across:
            kind = "f16x2" if dtype == "float16" else "bf16x2"
            assert count(rf"cvt\.rn\.{kind}\.f32", ptx) > 0
    if name.startswith("atomic"):
        assert count(r"red\.relaxed\.gpu\.global\.min\.s", ptx) > 0
        assert count(r"red\.relaxed\.gpu\.global\.max\.u", ptx) == (
            0 if "int" in dtype else count(r"\.min\.s\d+ \[", ptx)
        )
    if name == "split":
        assert count(r"atom\.acq_rel\.gpu\.global\.inc\.u32", ptx) == 1
    if name in CLUSTERS:
        # A release, which an arrival is unless it says otherwise, would wait for all writes to reach the whole device.
        assert re.findall(r"barrier\.cluster\.arrive[.\w]*", ptx) == ["barrier.cluster.arrive.relaxed.aligned"]
        assert ptx.index("mbarrier.arrive.expect_tx") < ptx.index("barrier.cluster.arrive"), "bytes may come before"
        assert count(r"st\.async\S*\.mbarrier::complete_tx::bytes\.", ptx) == 1
        assert count(r"st\.(?!async)\S*shared::cluster", ptx) == 0, "nobody would count these bytes"
    if name in MEETING:
        assert count(r"atom\.acq_rel\.gpu\.global\.add\.u64", ptx) == 1
        assert count(r"ld\.acquire\.gpu\.global\.u64", ptx) > 0

    assert made.local_bytes == 0, "registers were spilled"
    if capability != (9, 0) or not cubin.tools("nvdisasm"):
        return
    functions, missing = cubin.disassembly(made.binary)
    if missing is not None:
        pytest.skip(missing)
    for instruction in expected_instructions(op, dtype, name, v):
        assert count(instruction, functions[made.symbol]) > 0, instruction
    memory = re.search(r"\b(?:LDG|STG|LDGSTS|ATOM|ATOMG|RED|LD|ST)\b", functions[made.symbol])
    assert memory is not None and functions[made.symbol].index("ACQBULK") < memory.start(), "memory before the wait"
    if name in CLUSTERS:
        assert "MEMBAR" not in functions[made.symbol], "a block waits for its writes to reach the whole device"


def is_wide(v: View) -> bool:
    """Whether rows are read in vectors: not if so short that their edges would be most of them."""
    return v.vec > 1 and v.n >= 4 * v.vec


def expected_instructions(op: str, dtype: str, name: str, v: View) -> Iterator[str]:
    """What a kernel's machine code for sm_90 must hold."""
    if op == "softmax" and name in COPIED and v.whole:
        yield r"LDGSTS\.E\S*\.128"
    if is_wide(v) or name in BY_VECTORS:
        yield r"LDG\.E\S*\.128"
    if not v.across:
        yield r"SHFL\.BFLY"
    if op == "softmax" and dtype != "float64":
        yield r"MUFU\.EX2"
    if name.startswith("atomic"):
        yield r"(RED|ATOM)G?\.\S*MIN"
    if op == "min" and name == "split":
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
    assert softmax.choose.fastest(look(shape, dtype, "softmax"), SOFTMAX) == form


def test_remaining_dtypes_of_min_compile() -> None:
    """Every dtype of min, not only those above, compiles: one kernel each."""
    for dtype in ("float16", "bool", "uint8", "int16", "int32"):
        v = look(SHAPES["odd"], dtype, "min")
        ptx = to_ptx(min_kernels(v)["rows_deferred"], (9, 0))
        assert ".local" not in ptx and count(r"ld\.global\.(?:L1::no_allocate\.|L2::cache_hint\.)?v4", ptx) > 0


def test_clusters_send_64_bits() -> None:
    """A pair of float64: what the dtypes above don't send."""
    made = inspected(softmax_kernels(look(SHAPES["cluster"], "float64", "softmax"))["cluster"], (9, 0))
    assert count(r"st\.async\S*::bytes\.v2\.b64 \[", made.ptx) == 1
    assert made.registers > 0


OTHERS = [i for i in registry.implementations("numba") if i.variant in ("rows", "split") and i.op not in MAPPED]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_operations_read_whole_vectors_and_spill_nothing(dtype: str) -> None:
    shapes = {i: (16, 8192 if "backward" in i.op else 16384) for i in OTHERS}
    asked = [Request("numba", i.op, i.variant, shape, dtype, -1, "sm_90") for i, shape in shapes.items()]
    assert {request.variant for request in asked} == {"rows", "split"}
    for request, kernels in zip(asked, ask(asked), strict=True):
        assert not isinstance(kernels, KernelZooError), (request, kernels)
        assert {kernel.local_bytes for kernel in kernels} == {0}, request.id
        assert count(r"ld\.global\.\S*v4\.", kernels[0].ptx) >= 1, request.id
