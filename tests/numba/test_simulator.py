"""Every numba variant in Numba's CUDA simulator, on tiny shapes, with NUMBA_ENABLE_CUDASIM=1 before any import."""

# ruff: noqa: E402 - what Numba is at import depends on the simulator, so that is asked first

import math
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    pytest.skip("simulator only: run with NUMBA_ENABLE_CUDASIM=1, in a process of its own", allow_module_level=True)

pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

import simulator
from numba import cuda  # a global of that name, which the simulator replaces while a kernel runs

simulator.install()

from one_input import allocate

import kernelzoo
from kernelzoo import operations, registry
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check
from kernelzoo.device import Device
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.kernels.numba import simulated as machine

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # NumPy remarks on inf - inf and 1 / 0, which are meant

INF, NAN = float("inf"), float("nan")
SOFTMAX = list(kernelzoo.implementations("numba", "softmax"))
MIN = list(kernelzoo.implementations("numba", "min"))
PLAIN = [i for i in kernelzoo.implementations("numba") if i.variant in ("rows", "split") and i not in SOFTMAX + MIN]
registry.language("numba")
CHOOSERS = [i for i in SOFTMAX + MIN if i.chooses]  # which only hand on to the others
# Of clusters, or of more shared memory than the simulator has: tested one by one, with ``one_block``.
ALONE = ("numba/softmax/split_cluster",)
FORMS = [i for i in SOFTMAX + MIN if i not in CHOOSERS and i.id not in ALONE]
NAMED = [i for i in FORMS if i.variant != "columns"]
SHORT = ("multi_row_tile",)  # of rows up to some length
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
# One of 8 bits, which the atomics widen, and one of 64, which they take as it is, for each variant; for one, all.
FEW = [torch.int8, torch.int64]


def names(values: list) -> list[str]:
    return [getattr(value, "variant", None) or str(value).removeprefix("torch.") for value in values]


def run(implementation: kernelzoo.Implementation, x: torch.Tensor, dim: int = -1, launches: int = 1) -> None:
    """Each launch right to the operation's own tolerance, all of them alike to the bit; the input unchanged."""
    before = x.clone()
    op = implementation.operation
    out = allocate(op, x, dim)
    launch = implementation.launch(x, dim=dim, out=out)
    launch()
    op.assert_close(out, x, dim)
    first = out.clone()
    for _ in range(1, launches):
        launch()
        assert torch.equal(bits(out), bits(first))
    assert torch.equal(bits(x), bits(before))


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(torch.uint8)


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.1
    return (torch.randn(shape, generator=generator) * 40).to(dtype)


CASES = [
    (implementation, dtype)
    for implementation in NAMED
    for dtype in FLOATS
    + ([] if implementation in SOFTMAX else INTEGERS if implementation.variant == "rows_deferred_block" else FEW)
] + [(chooser, torch.float32) for chooser in CHOOSERS]


@pytest.mark.sampled(3, "implementation")
@pytest.mark.parametrize(
    ("implementation", "dtype"), CASES, ids=["-".join((i.id, *names([dtype]))) for i, dtype in CASES]
)
def test_dtypes(implementation: kernelzoo.Implementation, dtype: torch.dtype) -> None:
    width = 29 if implementation.variant in SHORT else 67
    run(implementation, values((3, width), dtype), launches=2 if dtype == torch.float32 else 1)


def layouts() -> Iterator[tuple[str, torch.Tensor, int]]:
    """Layouts that take a path of their own each."""
    x = values((3, 80), torch.float32)
    yield "aligned vectors", x[:, :64].contiguous(), -1
    yield "an unaligned start", x[:, 1:78], -1
    yield "stepped", x[:, ::2], -1
    yield "expanded", x[:, :1].expand(3, 67), -1
    yield "across rows, a thread each", values((3, 40), torch.float32), 0
    yield "a middle axis, several warps", values((2, 70, 6), torch.float32), 1
    yield "one column", values((6, 1), torch.float32), -1
    yield "several warps to a row", values((2, 1030), torch.float32), -1


LAYOUTS = list(layouts())


@pytest.mark.sampled(3, "implementation")
@pytest.mark.parametrize(("x", "dim"), [case[1:] for case in LAYOUTS], ids=[case[0] for case in LAYOUTS])
@pytest.mark.parametrize("implementation", NAMED, ids=[i.id for i in NAMED])
def test_layouts(implementation: kernelzoo.Implementation, x: torch.Tensor, dim: int) -> None:
    try:
        run(implementation, x, dim)
    except UnsupportedProblemError:
        if implementation.variant not in SHORT:
            raise
        pytest.skip("not of this length, or not as it lies in memory")


@pytest.mark.parametrize("implementation", NAMED, ids=[i.id for i in NAMED])
def test_special_values(implementation: kernelzoo.Implementation) -> None:
    x = values((8, 37), torch.float32)
    x[0] = -INF
    x[1, 5] = NAN
    x[2, 36] = INF
    x[3, :30] = -INF
    x[4, 0] = torch.tensor(-1, dtype=torch.int32).view(torch.float32)  # a NaN with the sign bit set
    x[5] = INF
    x[6, :18], x[6, 18:] = 0.0, -0.0
    x[7] += 1e6  # a large offset is no excuse
    run(implementation, x)
    for case in cases("softmax") if implementation in SOFTMAX else ():
        if case.name in ("float32-equal-terms-39", "float32-equal-terms-79"):
            run(implementation, case.inputs("cpu")[0])


@pytest.mark.sampled(4, "implementation")
@pytest.mark.parametrize("name", ["float32-3x17", "float32-special-values-5", "float32-dim0", "float16-37x129"])
@pytest.mark.parametrize("implementation", PLAIN, ids=lambda i: i.id)
def test_plain_forms(implementation: kernelzoo.Implementation, name: str) -> None:
    """Those of the other operations, a case of the contract each."""
    check(implementation, next(case for case in cases(implementation.op) if str(case) == name), "cpu")


@pytest.mark.parametrize("implementation", [i for i in SOFTMAX if i.variant in ("fused", "split")], ids=lambda i: i.id)
def test_a_part_of_infinities_beside_very_small_elements(implementation: kernelzoo.Implementation) -> None:
    """A thread that has -inf alone knows no largest value; whatever it puts in its place, e^300 must not come of it."""
    x = values((70, 8), torch.float32) - 300
    x[3::16] = -INF  # all that one thread of a block by columns has
    run(implementation, x, dim=0)
    run(implementation, x.T.contiguous())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=names([torch.float16, torch.bfloat16]))
def test_simulated_half_precision_converts_like_torch(dtype: torch.dtype) -> None:
    """The NumPy twins of the conversion instructions, on every half and on ties, carries and overflows of float32."""
    from kernelzoo.kernels.numba import simulated

    name = operations.dtype_name(dtype)
    every = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    wide = simulated._widen(every.numpy(), name)
    np.testing.assert_array_equal(wide, every.view(dtype).float().numpy())
    edges = np.nextafter(wide, np.float32(INF)), np.nextafter(wide, np.float32(-INF)), wide * np.float32(1 + 2**-9)
    for value in (wide, *edges):
        narrow = torch.from_numpy(np.asarray(simulated._narrow(value, name, np.uint16))).view(dtype)
        torch.testing.assert_close(narrow, torch.from_numpy(value).to(dtype), rtol=0, atol=0, equal_nan=True)


def test_shuffle_exchanges_within_a_warp() -> None:
    """The shim itself: two warps of a block that shuffle at different times, and a partial last warp."""

    @cuda.jit
    def shuffle(out):
        t = cuda.threadIdx.x
        value = t * 10
        if t < 32:
            value = cuda.shfl_xor_sync(0xFFFFFFFF, value, 16)
        cuda.syncthreads()
        out[t] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)

    out = np.zeros(48, dtype=np.int64)
    shuffle[1, 48](out)
    expected = [(t ^ 1 ^ 16) * 10 if t < 32 else (t ^ 1) * 10 for t in range(48)]
    np.testing.assert_array_equal(out, expected)


def test_a_module_has_the_simulator_s_words_until_a_launch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a device function too, whether the kernel fails or not."""
    elsewhere = types.ModuleType("elsewhere")
    vars(elsewhere).update(cuda=cuda)
    exec("def place():\n    return cuda.threadIdx.x", vars(elsewhere))
    place = cuda.jit(vars(elsewhere)["place"], device=True)

    @cuda.jit
    def places(out, bad):
        out[place()] = place()
        assert elsewhere.cuda is not real
        if place() == bad:
            raise ValueError("on purpose")

    real, out = cuda, np.zeros(40, dtype=np.int64)
    places[1, 40](out, -1)
    np.testing.assert_array_equal(out, range(40))
    assert elsewhere.cuda is real
    with pytest.raises(ValueError, match="on purpose"):
        places[1, 40](out, 3)
    assert elsewhere.cuda is real and cuda is real


@pytest.mark.parametrize("barrier", [True, False])
def test_a_shared_array_is_one_for_all_threads_and_begins_as_nan(barrier: bool) -> None:
    """So that a missing barrier shows."""

    @cuda.jit
    def neighbours(out):
        values = cuda.shared.array(49, np.float32)
        t = cuda.threadIdx.x
        values[t] = t
        if barrier:
            cuda.syncthreads()
        out[t] = values[t + 1]

    out = np.zeros(48, dtype=np.float32)
    neighbours[1, 48](out)
    assert np.isnan(out[47])
    assert np.isnan(out[:47]).any() != barrier and (not barrier or np.array_equal(out[:47], range(1, 48)))


def test_a_thread_that_ends_is_not_waited_for_and_one_that_fails_ends_the_others() -> None:
    @cuda.jit
    def some(out, bad):
        t = cuda.threadIdx.x
        if t == 40:
            return
        if t == bad:
            raise ValueError("this thread")
        cuda.syncthreads()
        out[t] = t

    out = np.zeros(64)
    some[1, 64](out, -1)
    assert out.sum() == sum(range(64)) - 40
    with pytest.raises(ValueError, match="this thread"):
        some[1, 64](out, 7)


def test_threads_that_wait_for_nobody_are_an_error() -> None:
    @cuda.jit
    def alone(counters):
        t = cuda.threadIdx.x
        if t == 0:
            cuda.shfl_xor_sync(0xFFFFFFFF, t, 1)

    @cuda.jit
    def asking(counters):
        while machine.load_counter(counters, 0) < 1:
            pass

    with pytest.raises(RuntimeError, match="waits for another"):
        alone[1, 32](np.zeros(1, dtype=np.int64))
    with pytest.raises(RuntimeError, match="what nobody writes"):
        asking[2, 32](np.zeros(1, dtype=np.int64))


def test_blocks_may_wait_for_later_ones() -> None:
    @cuda.jit
    def meeting(counters, out):
        if cuda.threadIdx.x == 0:
            machine.count_up(counters, 0)
            while machine.load_counter(counters, 0) < cuda.gridDim.x:
                pass
            out[cuda.blockIdx.x] = counters[0]

    counters, out = np.zeros(1, dtype=np.int64), np.zeros(3, dtype=np.int64)
    meeting[3, 32](counters, out)
    np.testing.assert_array_equal(out, 3)


def test_backend_without_shuffles_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelzoo.kernels.numba import probe

    monkeypatch.delattr("numba.cuda.simulator.kernelapi.FakeCUDAModule.shfl_xor_sync")
    with pytest.raises(BackendUnavailableError, match="no warp shuffles"):
        probe()


@pytest.fixture
def one_block(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A device of one multiprocessor with clusters of as many blocks as ``simulator.clusters_of`` says."""
    from kernelzoo.kernels.numba import launch
    from kernelzoo.kernels.numba.softmax import columns, split_cluster, split_grid
    from kernelzoo.kernels.numba.softmax_backward import split_cluster as gradient_cluster

    cluster = types.ModuleType("kernelzoo.kernels.numba.cluster")
    for name in ("cluster_arrive", "cluster_wait", "send", "wait_for"):
        setattr(cluster, name, getattr(simulator.Cluster, name))
    monkeypatch.setitem(sys.modules, cluster.__name__, cluster)

    def change(most_blocks: int = 1, shared_bytes: int = 2**17, processors: int = 1) -> None:
        monkeypatch.setattr(split_grid, "grid_shape", lambda *_: (processors, 64))
        device = replace(
            launch.SIMULATOR, arch="sm_90", multiprocessors=processors, shared_per_block=shared_bytes + 2048
        )
        monkeypatch.setattr(launch, "SIMULATOR", device)
        monkeypatch.setattr(Device, "cluster_blocks", most_blocks)
        monkeypatch.setattr(launch, "_settled", {})  # those of other answers

    change()
    kernels = (
        *(split_cluster.cluster_kernel, split_grid.grid_kernel),
        columns.columns_kernel,
        gradient_cluster.cluster_kernel,
    )
    for kernel in kernels:
        kernel.cache_clear()
    yield change
    for kernel in kernels:
        kernel.cache_clear()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("blocks", "processors"),
    [(1, 1), (3, 1), (0, 1), (0, 3)],
    ids=["a cluster of one", "a cluster", "a grid of one", "a grid"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_threads_without_elements_have_no_maximum(blocks, processors, dtype, one_block, monkeypatch) -> None:
    """Of rows far below zero, with parts of -inf: a zero for what was not read would be larger than all of them."""
    from kernelzoo.kernels.numba.softmax import split_cluster

    one_block(most_blocks=3, processors=processors)
    monkeypatch.setattr(split_cluster, "cluster_shape", lambda *_: (blocks, 64, 4) if blocks else None)
    split = kernelzoo.implementation("numba/softmax/split")
    for columns in (7, 32, 261, 2125):
        x = values((3, columns), dtype) / 40 - 1000
        x[1, : columns // 2] = -INF
        x[2] = values((columns,), dtype) * 10  # so far apart that any but the largest would overflow, in float64 too
        with simulator.clusters_of(blocks or 1):
            run(split, x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("start", [0, 2, 3])
def test_a_grid_takes_rows_of_any_layout(dtype: torch.dtype, start: int, one_block: Callable[..., None]) -> None:
    """Along memory off the boundaries of vectors, where out begins with one, and across: nothing in shared memory."""
    one_block(processors=3)
    split = kernelzoo.implementation("numba/softmax/split")
    x = values((2, 2125 + start), dtype)[:, start:]
    x[0, 1000:] = -INF
    run(split, x[:1])
    run(split, x.T.contiguous(), 0)


def columns_with_special_values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Over the first axis: -inf alone, far below zero with a part of -inf, NaN, +inf, and the rest ordinary."""
    x = values(shape, dtype)
    x[:, 0] = -INF
    x[:, 1] -= 1000
    x[::3, 1] = -INF
    x[5, 2] = NAN
    x[6, 3] = INF
    return x


@pytest.mark.parametrize("blocks", [1, 3], ids=["a block", "a cluster"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_columns_in_registers(dtype: torch.dtype, blocks: int, one_block: Callable[..., None]) -> None:
    from kernelzoo.kernels.numba.launch import Simulated
    from kernelzoo.kernels.numba.softmax.columns import columns_kernel
    from kernelzoo.kernels.numba.tiling import column_offsets, vector_columns, view

    x = columns_with_special_values((61, 40), dtype)
    out = torch.empty_like(x)
    if blocks == 1:
        run(kernelzoo.implementation("numba/softmax/columns"), x, 0)
    c = vector_columns(view(x[None], out[None]))
    assert c is not None
    source = columns_kernel(c.dtype, 4, 4, blocks > 1)
    grid = c.strips(4 * c.vector) * blocks
    call = Simulated(source).call(grid, *column_offsets(c), blocks, -(-c.n // blocks), threads=64)
    with simulator.clusters_of(blocks):
        call(x[None], out[None])()
    operations.OPERATIONS["softmax"].assert_close(out, x, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64], ids=str)
@pytest.mark.parametrize(
    "shape", [(70, 41), (2, 67, 45), (64, 300), (65, 64), (3, 66, 16)], ids=lambda shape: "x".join(map(str, shape))
)
@pytest.mark.parametrize("start", [0, 3])
def test_minimum_of_columns_by_strips(shape, start, dtype, monkeypatch) -> None:
    """Rows that begin anywhere in a vector, in one strip and in several."""
    from kernelzoo.kernels.numba.min import columns

    monkeypatch.setattr(columns, "MOST_THREADS", 128)
    columns.columns_kernel.cache_clear()
    memory = values((start + math.prod(shape),), dtype)
    x = memory[start:].view(shape)
    if dtype.is_floating_point:
        x[..., 3, 1] = NAN
        x[..., 2] = INF
        x[..., 7, 3] = -INF
    lowest = -1e4 if dtype.is_floating_point else -128
    for column, place in ((0, 0), (-1, -1), (4, -1), (-4, 0)):
        x[..., place, column] = lowest
    memory[:start] = 2 * lowest if dtype.is_floating_point else -128  # a neighbour that is no row's
    run(kernelzoo.implementation("numba/min/columns"), x, -2)
    columns.columns_kernel.cache_clear()


def gradient(op: str, a: torch.Tensor, b: torch.Tensor, dim: int) -> tuple[torch.Tensor, ...]:
    """Inputs of a gradient: a and b as they are, or b, with many equal minima, its minimum, and a row of a."""
    if op == "softmax_backward":
        return a, b
    return (b, b.amin(dim), a.select(dim, 0))


def run_gradient(implementation: kernelzoo.Implementation, inputs: tuple[torch.Tensor, ...], dim: int) -> None:
    """Two launches right to the operation's own tolerance, and alike to the bit."""
    out = torch.full(inputs[0].shape, NAN, dtype=inputs[0].dtype)
    launch = implementation.launch(*inputs, dim=dim, out=out)
    launch()
    implementation.operation.assert_close(out, inputs, dim)
    first = out.clone()
    launch()
    assert torch.equal(bits(out), bits(first))


def gradient_layouts(dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, int]]:
    """Both inputs alike, and each in a layout of its own."""
    x, y = ((values(shape, dtype) / 40).round(decimals=1) for shape in ((3, 80), (6, 40)))
    y = y.view(3, 80).clamp(min=-0.5)  # so that minima stand at the ends of rows as well
    yield "aligned vectors", x[:, :64].contiguous(), y[:, :64].contiguous(), -1
    yield "an unaligned start", x[:, 1:78], y[:, 1:78], -1
    yield "rows with edges", x[:, :67].contiguous(), y[:, :67].contiguous(), -1
    yield "unaligned, each in its way", x[:, 1:78], y[:, 2:79], -1
    yield "one stepped", x[:, :40].contiguous(), y[:, ::2], -1
    yield "one expanded", x[:, :67].contiguous(), y[:, :1].expand(3, 67), -1
    yield "short", x[:, :5].contiguous(), y[:, :5].contiguous(), -1
    yield "across rows", x, y, 0
    yield "columns", x.reshape(6, 40).T.contiguous(), y.reshape(40, 6), 0
    yield "columns of whole vectors", x[:, :40].T.reshape(5, 24), y[:, :40].T.reshape(5, 24), 0
    yield "many columns", values((3, 33), dtype).T / 40, values((33, 3), dtype) / 40, 1
    yield "one across, one along", x[:, :40].T, y[:, 40:].T.contiguous(), 0
    yield "a middle axis", values((2, 70, 6), dtype) / 40, values((2, 70, 6), dtype).round() / 40, 1
    yield "one column", values((6, 1), dtype) / 40, values((6, 1), dtype) / 40, -1
    yield "several warps to a row", values((2, 1030), dtype) / 40, (values((2, 1030), dtype) / 40).round(), -1


GRADIENTS = [
    (implementation, dtype)
    for op in ("softmax_backward", "min_backward")
    for implementation in kernelzoo.implementations("numba", op)
    if implementation.variant != "split_cluster"
    for dtype in ([torch.float32] if implementation.chooses else FLOATS)
]


@pytest.mark.sampled(3, "implementation")
@pytest.mark.parametrize(
    ("implementation", "dtype"), GRADIENTS, ids=["-".join((i.id, *names([d]))) for i, d in GRADIENTS]
)
def test_gradients(implementation: kernelzoo.Implementation, dtype: torch.dtype) -> None:
    for place, (_, a, b, dim) in enumerate(gradient_layouts(dtype)):
        if dtype not in (torch.float16, torch.float64) or place % 2 == 0:
            run_gradient(implementation, gradient(implementation.operation.name, a, b, dim), dim)


@pytest.mark.parametrize(
    "implementation",
    [i for i, dtype in GRADIENTS if dtype == torch.float32],
    ids=lambda implementation: implementation.id,
)
def test_special_values_of_gradients(implementation: kernelzoo.Implementation) -> None:
    """Rows along, and the same across, of NaN, infinities and zeros, in one input or the other."""
    op = implementation.operation.name
    taken = 0
    for case in cases(op):
        if case.elements > 1000 or not case.name.startswith("float32") or "special" not in case.name:
            continue
        inputs = case.inputs("cpu")
        for turned in (False, True):
            ours = tuple(x.T.contiguous() if x.ndim == 2 else x for x in inputs) if turned else inputs
            run_gradient(implementation, ours, 0 if turned else -1)
            taken += 1
    assert taken


@pytest.mark.sampled(3)
@pytest.mark.parametrize("held", [True, False], ids=["held", "read twice"])
@pytest.mark.parametrize("dtype", FLOATS, ids=names(FLOATS))
@pytest.mark.parametrize(("n", "start"), [(1024, 0), (1003, 1), (5, 0)], ids=str)
def test_gradient_of_a_softmax_in_a_cluster(n, start, dtype, held, one_block) -> None:
    from kernelzoo.kernels.numba.launch import Simulated
    from kernelzoo.kernels.numba.softmax_backward.split_cluster import LINE, cluster_kernel
    from kernelzoo.kernels.numba.tiling import Tiling, view

    grad, y = ((values((3, n + 8), dtype) / 40)[:, start : start + n, None] for _ in range(2))
    y[1, n // 2] = INF
    out = torch.empty(grad.shape, dtype=dtype)
    v = view(grad, out, y)
    share = -(-max(1, n // v.vec) // (3 * LINE)) * LINE * v.vec
    tiling = Tiling(512, 1, 8 if held else 1, v.vec, v.edges, flexible=True)
    call = Simulated(cluster_kernel(v.dtype, tiling, held)).call(v.total * 3, *v.offsets, 3, share, threads=64)
    with simulator.clusters_of(3):
        call(grad, y, out)()
    operations.OPERATIONS["softmax_backward"].assert_close(out, (grad, y), 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "processors"),
    [(1, 3), (1, 40), (5, 2)],
    ids=["a row by three blocks", "by more than a warp", "rows in turn"],
)
def test_gradients_of_rows_that_blocks_share(rows, processors, dtype, monkeypatch) -> None:
    """More of a row than a block holds: each reads the rest of its share again. Of edges, the first block's alone."""
    from kernelzoo.kernels.numba import launch
    from kernelzoo.kernels.numba.min_backward import split_grid as form

    monkeypatch.setattr(form, "THREADS", 32)
    monkeypatch.setattr(launch, "SIMULATOR", replace(launch.SIMULATOR, multiprocessors=processors))
    monkeypatch.setattr(launch, "_settled", {})
    form.grid_kernel.cache_clear()
    n = max(3 * 7, processors) * 32 * 16 // dtype.itemsize
    split = kernelzoo.implementation("numba/min_backward/split_grid")
    for start in (0, 1):
        a, b = ((values((rows, n + 8), dtype) / 40)[:, start : start + n + 5] for _ in range(2))
        run_gradient(split, gradient("min_backward", a, b.round(), -1), -1)
    x = (values((n // 8, 3), dtype) / 40).round()
    run_gradient(split, gradient("min_backward", x, x, 0), 0)
    form.grid_kernel.cache_clear()
