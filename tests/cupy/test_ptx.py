"""What NVRTC makes of every CUDA C++ kernel, run on the host: its PTX, in the emulator of tests/emulation."""

import itertools
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KERNELZOO_EMULATE_PTX") != "cupy":
    pytest.skip("emulator only: run with KERNELZOO_EMULATE_PTX=cupy", allow_module_level=True)
pytest.importorskip("cupy", reason="CuPy is not installed")

import compiled_cupy  # which conftest.py has loaded, and installed
import host_compiler
import torch
from ptx import PtxError

import kernelzoo
import kernelzoo.kernels.cupy as backend
from kernelzoo import operations, registry, tables
from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.cupy.softmax.choose import Knobs

if not host_compiler.compiler():
    pytest.skip("no C++ compiler: install g++ or clang++, or the package ziglang", allow_module_level=True)


INF = float("inf")
SIX, OLD = compiled_cupy.DEVICES[90], compiled_cupy.DEVICES[80]
ONE, TWO = replace(SIX, multiprocessors=1), replace(SIX, multiprocessors=2)
SMALL = replace(SIX, shared_per_block=50 * KIB)  # two tiles to a ring
SMALL_NEW = replace(SMALL, arch="sm_120")  # whose clusters are smaller
OLD_ONE, SMALL_ONE = replace(OLD, multiprocessors=1), replace(ONE, shared_per_block=20 * KIB)
RING = Knobs(cluster_threads=32)  # past the largest cluster of a warp to a block
ONE_ROW_AT_A_TIME = replace(RING, ring_megabytes=0)


@dataclass(frozen=True)
class Case:
    """A problem that a variant takes by a form on a device."""

    form: str
    """``op/form``."""
    variant: str
    dtype: str
    shape: tuple[int, ...]
    dim: int = -1
    device: Device = SIX
    knobs: object = None
    apart: bool = False
    """Whether the second input starts elsewhere in a 16-byte word than the first."""

    @property
    def op(self) -> str:
        return self.form.split("/")[0]

    def __str__(self) -> str:
        name, shape = self.form.replace("/", " "), "x".join(map(str, self.shape))
        where = f"{self.device.arch}x{self.device.multiprocessors}"
        return f"{name} {self.dtype} {shape} {where}{' apart' if self.apart else ''}"


def cases(form: str, variant: str, **given: Any) -> list[Case]:
    """Problems by dtype, all else said once."""
    fields = {name: given.pop(name) for name in ("dim", "device", "knobs", "apart") if name in given}
    return [Case(form, variant, dtype, shape, **fields) for dtype, shapes in given.items() for shape in shapes]


SPLIT = ("sum/split", "argmin/split", "logsumexp/split", "cross_entropy/split", "cumsum/split")
PLAIN = [f"{i.op}/rows" for i in kernelzoo.implementations("cupy") if i.variant == "rows" and i.op != "min"]

CASES = [
    *cases("softmax/fused", "fused", float32=[(3, 1030)]),
    *cases("softmax/persistent", "persistent", float32=[(40, 1030)]),
    *cases("softmax/multi_row_tile", "multi_row", float32=[(37, 300), (37, 64)]),
    *cases("softmax/multi_row_lanes", "multi_row_lanes", bfloat16=[(301, 129), (61, 202)], float16=[(133, 67)]),
    *cases("softmax/multi_row_lanes", "multi_row_lanes", float32=[(133, 67), (61, 255)]),
    *cases("softmax/multi_row_lanes", "multi_row", bfloat16=[(2500, 5)]),
    *cases("softmax/online", "online", float32=[(3, 5003)]),
    *cases("softmax/online", "split", device=OLD, float32=[(2, 40003)]),
    *cases("softmax/split_cluster", "split", float32=[(2, 5003)]),
    *cases("softmax/split_cluster", "split", device=TWO, bfloat16=[(4, 122903)]),
    *cases("softmax/split_ring", "split", knobs=RING, float32=[(2, 40003)]),
    *cases("softmax/split_ring", "split", device=SMALL_NEW, knobs=ONE_ROW_AT_A_TIME, bfloat16=[(2, 270003)]),
    *cases("softmax/split_ring", "split", device=SMALL, knobs=ONE_ROW_AT_A_TIME, float64=[(2, 30003)]),
    *cases("softmax/columns", "auto", dim=0, float32=[(130, 45), (700, 48)], bfloat16=[(49, 77), (2050, 200)]),
    *cases("softmax/columns", "auto", dim=1, float32=[(5, 49, 45)]),
    *cases("softmax/multi_row_tile", "auto", dim=0, bfloat16=[(6, 77)]),
    *cases("softmax/multi_row_tile", "auto", dim=1, float32=[(5, 48, 45)]),
    *cases("softmax/columns", "columns", dim=0, bfloat16=[(1100, 48)], float32=[(1200, 45)]),
    *cases("softmax/columns", "columns", dim=0, float64=[(300, 20), (1200, 12)]),
    *cases("softmax/columns", "split", dim=0, device=OLD, bfloat16=[(1030, 48)]),
    *cases("softmax/columns", "split", dim=1, device=OLD_ONE, float32=[(7, 1030, 48)]),
    *cases("softmax/columns", "auto", dim=0, device=TWO, float16=[(1030, 400)]),
    *cases("softmax/columns", "auto", dim=0, device=ONE, float32=[(5000, 40)]),
    *cases("min/rows", "rows", float32=[(3, 5003)]),
    *cases("min/rows_deferred_block", "rows_deferred", float32=[(3, 5003)]),
    *cases("min/rows_deferred_lanes", "rows_deferred", int8=[(40, 300)], bfloat16=[(2500, 5)]),
    *cases("min/split_arrival", "split", float32=[(3, 50003)], float16=[(13, 120003)]),
    *cases("min/split_arrival", "split", device=OLD, int64=[(2, 30003)]),
    *cases("min/columns", "rows_deferred", dim=0, float32=[(130, 45)]),
    *cases("min/columns_split", "split", dim=0, bfloat16=[(1000, 45)], float32=[(20001, 3)], int16=[(9000, 5)]),
    *cases("min/columns_split", "split", dim=1, device=OLD, float64=[(3, 3000, 9)]),
    *cases("min/atomic_eager", "atomic_eager", float32=[(40, 5003)], float16=[(40, 5003)]),
    *cases("min/atomic_batched", "atomic_batched", float32=[(200, 5003)], int16=[(40, 5003)]),
    *cases("softmax_backward/fused", "fused", float32=[(3, 1030), (37, 300), (801, 64)]),
    *cases("softmax_backward/fused", "fused", apart=True, bfloat16=[(3, 5003)], float16=[(37, 77)]),
    *cases("softmax_backward/fused", "auto", dim=0, float32=[(6, 77), (130, 45), (5000, 5)]),
    *cases("softmax_backward/fused", "auto", dim=1, bfloat16=[(5, 48, 45)]),
    *cases("softmax_backward/online", "online", float32=[(3, 5003)]),
    *cases("softmax_backward/online", "online", apart=True, float16=[(2, 9003)]),
    *cases("softmax_backward/fused", "fused", dim=0, bfloat16=[(1500, 48)], float32=[(6, 400)]),
    *cases("softmax_backward/fused", "fused", dim=0, device=ONE, float64=[(3000, 20)]),
    *cases("softmax_backward/fused", "split", dim=0, device=OLD, bfloat16=[(1030, 48)]),
    *cases("softmax_backward/fused", "fused", dim=1, device=OLD_ONE, float32=[(7, 130, 48)]),
    *cases("softmax_backward/online", "split", device=OLD, float32=[(2, 9003)]),
    *cases("softmax_backward/split_cluster", "split", float32=[(2, 5003)]),
    *cases("softmax_backward/split_cluster", "split", device=TWO, bfloat16=[(4, 122903)]),
    *cases("softmax_backward/split_cluster", "split", apart=True, float16=[(2, 9003)]),
    *cases("min_backward/fused", "fused", float32=[(3, 1030), (37, 300)], bfloat16=[(2, 90003)], float64=[(801, 32)]),
    *cases("min_backward/fused", "auto", dim=0, float32=[(6, 77), (130, 45), (5000, 5)]),
    *cases("min_backward/fused", "auto", dim=1, bfloat16=[(5, 48, 45)]),
    *cases("min_backward/online", "online", float32=[(3, 5003)], float16=[(2, 9003)]),
    *cases("min_backward/fused", "fused", dim=0, bfloat16=[(3000, 48)]),
    *cases("min_backward/fused", "fused", dim=0, device=SMALL, float64=[(9000, 20)]),
    *cases("min_backward/split_grid", "split_grid", float32=[(2, 50003)]),
    *cases("min_backward/split_grid", "split_grid", device=SMALL_ONE, bfloat16=[(2, 150003)]),
    *cases("min_backward/split_grid", "split_grid", device=OLD, float64=[(5, 9003)]),
    *cases("min_backward/split_grid", "split_grid", dim=0, device=OLD, bfloat16=[(1030, 9)]),
    *cases("min_backward/fused", "fused", dim=0, device=OLD, bfloat16=[(1030, 48)]),
    *itertools.chain.from_iterable(
        (
            *cases(form, "rows", float32=[(37, 300), (3, 5003)], bfloat16=[(2, 4096)]),
            *cases(form, "rows", dim=1, device=OLD, float16=[(3, 77, 45)]),
        )
        for form in PLAIN
    ),
    *cases("rms_norm/rows", "rows", bfloat16=[(2, 32768)], float32=[(2, 18000)]),
    *cases("rms_norm_backward/rows", "rows", float32=[(37, 64)], bfloat16=[(3, 16384)]),
    *cases("layer_norm_backward/rows", "rows", float16=[(37, 64)], float64=[(9, 4096)]),
    *itertools.chain.from_iterable(
        (
            *cases(form, "auto", float32=[(2, 40003)], bfloat16=[(3, 40000)]),
            *cases(form, "auto", device=OLD, dim=0, float16=[(20000, 3)]),
        )
        for form in SPLIT
    ),
]


@cache
def values(case: Case) -> tuple[tuple[torch.Tensor, ...], operations.Expected]:
    """The inputs, and what must come of them: what is left out, or read twice, changes a result."""
    generator = torch.Generator().manual_seed(0)
    kind, shape, dim, op = getattr(torch, case.dtype), case.shape, case.dim, operations.OPERATIONS[case.op]
    if case.op == "softmax":
        inputs = ((torch.randn(shape, generator=generator) * 5 - 60).to(kind),)
    elif case.op == "min":
        x = torch.randint(40, 127, shape, generator=generator).to(kind)
        rows = list(shape)
        rows[dim] = 1
        places = torch.randint(shape[dim], rows, generator=generator)
        places.view(-1)[0], places.view(-1)[-1] = 0, shape[dim] - 1
        x.scatter_(dim, places, torch.randint(-40, 40, rows, generator=generator).to(kind))
        inputs = (x,)
    else:
        inputs = op.sample(shape, case.dtype, dim, generator=generator)
        if case.op == "min_backward":
            inputs[0].sub_(inputs[0].amin(dim, keepdim=True))
            inputs[0].select(dim, 0).zero_(), inputs[0].select(dim, -1).zero_()
            inputs = op.match_other_inputs(inputs, dim, generator=generator)
    if case.apart:
        inputs = (inputs[0], *(torch.cat((x.new_zeros(1), x.view(-1)))[1:].view(x.shape) for x in inputs[1:]))
    return inputs, op.expect(op.arguments(inputs, dim))


def run(case: Case, launches: int = 1, edit: Callable[[str], str] = str, seed: int = 0) -> set[tuple[str, str]]:
    """Launch it, in orders that follow from the seed; which kernels of which forms ran."""
    inputs, right = values(case)
    before, implementation = [x.clone() for x in inputs], kernelzoo.implementation(f"cupy/{case.op}/{case.variant}")
    registry.language("cupy")
    table = case.knobs or (tables.declared_table("cupy", case.op) or Knobs)()
    op = implementation.operation
    with compiled_cupy.device(case.device, edit) as machine, tables.using(table):
        machine.seeds = itertools.count(1000 * seed)
        outs = op.allocate(op.arguments(inputs, case.dim))
        launch = implementation.launch(*inputs, dim=case.dim, out=outs)
        first = None
        for _ in range(launches):
            for out in outs:
                out.view(torch.uint8).fill_(0x5A)
            launch()
            right.check(outs)
            bits = [out.view(torch.uint8).clone() for out in outs]
            assert first is None or all(map(torch.equal, bits, first))
            first = bits
        assert all(map(torch.equal, inputs, before))
        if launches > 1:  # each row's data in another row: what a launch left behind is of no use to the next
            rank = inputs[0].ndim
            kept = [axis for axis in range(rank) if axis != case.dim % rank]

            def turned(x: torch.Tensor, axes: tuple[str, ...]) -> torch.Tensor:
                if "outer" not in axes:
                    return x
                places = kept if x.ndim == rank else list(range(x.ndim))
                return x.view(torch.uint8).flip(places).view(x.dtype) if x.itemsize == 1 else x.flip(places)

            try:
                for turn in (True, False, True):
                    for x, was, axes in zip(inputs, before, op.axes, strict=False):
                        x.copy_(turned(was, axes) if turn else was)
                    launch()
                    written = zip(outs, op.axes[len(inputs) :], strict=True)
                    right.check(tuple(turned(out, axes) if turn else out for out, axes in written))
            finally:
                for x, was in zip(inputs, before, strict=True):
                    x.copy_(was)
        return {(f"{case.op}/{file.stem}", name.split("<")[0]) for file, name in machine.launched}


def file_of(form: str) -> Path:
    """The CUDA C++ of ``op/form``."""
    return Path(backend.__file__).parent / f"{form}.cu"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels(case: Case) -> None:
    """Right in several orders of the threads, and the same bits."""
    assert {form for form, _ in run(case, launches=4)} == {case.form}


def test_every_kernel_is_reached() -> None:
    registry.language("cupy")
    forms = {f"{i.op}/{i.variant}" for i in kernelzoo.implementations("cupy") if not i.chooses}
    assert forms == {case.form for case in CASES}
    for form in sorted(forms):
        source = re.sub(r"//[^\n]*", "", compiler.full_source(file_of(form)))
        names = set(re.findall(r"\b(\w+)\(const (?:Problem|MultiInput<[\w<>:]+>) given", source))
        assert len(names) == source.count("__global__")
        if names != {form.split("/")[1]}:  # several
            assert names == {name for case in CASES if case.form == form for _, name in run(case)}


BROKEN = [
    ("softmax/fused", "__syncthreads();\n  return merge_slots", "return merge_slots", "wrong"),
    ("softmax/multi_row_tile", "const auto all = merge", "if (r >= p.rows) return; const auto all = merge", "ended"),
    ("softmax/split_cluster", "wait_for(&barrier, 0);", "", "wrong|has ended"),
    ("softmax/split_ring", "WORDS) >> 32) + 1", "WORDS) >> 32)", "wrong"),
    ("softmax/online", "__shared__ Pair<W> slots[32];", "__shared__ Pair<W> slots[2];", "shared memory, which a block"),
    ("softmax/fused", "raw = Bytes16{{even, odd, even, odd}};", "raw = {};", "wrong"),
    ("min/rows", "head = before < p.n ? before : (int)p.n;", "", "no multiple"),
    ("min/rows", 'asm volatile("griddepcontrol.wait;"', "//", "before it waits for the launches"),
    ("min/atomic_eager", "if (r < p.rows) *(Word", "*(Word", "writes"),
    ("softmax_backward/split_cluster", "cluster_wait();  //", "//", "known to have started"),
    ("sum/rows", "    __syncthreads();\n    own = shared", "    own = shared", "wrong"),
    ("sum/split", "if (!arrives_last(arrived + block / parts, parts)) return false;", "", "wrong"),
    ("argmin/rows", "merge_lanes(least_of_lane(x, lane), shared, lane, Lesser{})", "least_of_lane(x, lane)", "wrong"),
    ("cumsum/rows", "shared[turn ^= 1]", "shared[0]", "wrong"),
    ("rms_norm_backward/rows", "sum[j] = merge_threads(sum[j]", "merge_threads(sum[j]", "wrong"),
]
"""A form, what stands in its source, what is put there instead, and in what words that shows."""


@pytest.mark.parametrize(("form", "before", "after", "words"), BROKEN, ids=[fault[0] for fault in BROKEN])
def test_broken_kernels_are_found(form: str, before: str, after: str, words: str) -> None:
    """A fault shows in one of some orders, and most in each."""
    cases = sorted((case for case in CASES if case.form == form), key=lambda case: math.prod(case.shape))
    assert before in compiler.full_source(file_of(form))

    def in_many_orders() -> None:
        for seed, case in itertools.product(range(20), cases):
            run(case, 2, partial(_replaced, before, after), seed)

    with pytest.raises((AssertionError, PtxError), match=words):
        in_many_orders()


@pytest.mark.parametrize("rows", [300, 1200])
def test_a_thread_without_a_finite_element_scales_by_nothing(rows: int) -> None:
    """Its exponentials are zero, and stay so however far below zero the others' maximum lies."""
    x = torch.full((rows, 48), -INF)
    x[-1] = -1000
    careless = ("own[k] = m[k];", "own[k] = zero_if_empty(m[k]);")
    for edit, right in ((str, True), (lambda source: source.replace(*careless), False)):
        with compiled_cupy.device(SIX, edit):
            out = kernelzoo.get("cupy").softmax(x, 0, variant="columns")
        assert bool((out[-1] == 1).all() and (out[:-1] == 0).all()) == right


def _replaced(before: str, after: str, source: str) -> str:
    assert before in source
    return source.replace(before, after)


TINY = torch.arange(1, 81, dtype=torch.int32).view(torch.float32).repeat(3, 1)
SUBNORMAL = [
    (*("min", (TINY * torch.tensor([[1], [-1], [1]]),), "min.NaN.f32 x, x, y;"), "min.ftz.NaN.f32 x, x, y;"),
    (
        *("softmax_backward", (torch.linspace(-1e8, 1e8, 80).repeat(3, 1), TINY)),
        *("mul.rn.f32 %0, %0, %1;", "mul.rn.ftz.f32 %0, %0, %1;"),
    ),
    ("min_backward", (TINY, TINY.amin(-1), torch.ones(3)), "set.eq.u32.f32", "set.eq.ftz.u32.f32"),
]
"""Operations of numbers that the device's own arithmetic takes for zeros, and an instruction that would, too."""


@pytest.mark.parametrize(("name", "inputs", "before", "after"), SUBNORMAL, ids=[one[0] for one in SUBNORMAL])
def test_subnormal_numbers_are_no_zeros(name: str, inputs: tuple[torch.Tensor, ...], before: str, after: str) -> None:
    operation, call = operations.OPERATIONS[name], getattr(kernelzoo.get("cupy"), name)
    operation.assert_close(call(*inputs), inputs)
    with compiled_cupy.device(SIX, partial(_replaced, before, after)), pytest.raises(AssertionError):
        operation.assert_close(call(*inputs), inputs)
