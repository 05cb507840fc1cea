"""A batch-invariant call: a row gives the same bits alone as among any number of rows, in every language that is here.

Kernels run where they can: the host's, and those that are interpreted, simulated or emulated. For a device that is
described, the launches of one row and of many must be the same but for the grid, or add exponentials exactly.
"""

import os
import re
from functools import partial
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import operations, registry
from kernelzoo.check.bits import bits
from kernelzoo.check.running import check
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.inspect import Request, simulate_device
from kernelzoo.launch import LaunchStep, record_binds
from kernelzoo.testing import cases

OPS = ("softmax", "sum", "logsumexp", "cross_entropy", "cumsum", "softmax_backward", "rms_norm")
LENGTHS = (1, 5, 33, 128, 777, 1000, 4096, 16384, 50257, 131072)
COUNTS = (1, 2, 7, 64, 256, 512)


def installed(backend: str) -> bool:
    try:
        registry.import_kernels(backend, f"kernelzoo.kernels.{backend}")
    except (ImportError, kernelzoo.BackendUnavailableError):
        return False
    return True


LANGUAGES = [
    backend for backend in ("triton", "gluon", "helion", "numba", "cupy", "cute", "cutile") if installed(backend)
]


def runs(backend: str) -> bool:
    """Whether its kernels run in this process."""
    try:
        return kernelzoo.get(backend).devices == ("cpu",)
    except kernelzoo.BackendUnavailableError:
        return False


RUNNING = [backend for backend in ("cpu", *LANGUAGES) if runs(backend)]


def results(backend: str, op: str, inputs: Any, rows: slice, **named: Any) -> list[torch.Tensor]:
    """A call's results on some rows, as bits: on copies, or on the rows themselves if the first has an odd number."""
    names, where_they_are = operations.OPERATIONS[op].axes, (rows.start or 0) % 2
    some = [
        (x[rows] if where_they_are else x[rows].clone()) if "outer" in axes else x
        for x, axes in zip(inputs, names, strict=False)
    ]
    found = getattr(kernelzoo.get(backend), op)(*some, **named)
    return [bits(out) for out in (found if isinstance(found, tuple) else (found,))]


def alike(backend: str, op: str, n: int, dtype: str = "float32", **named: Any) -> bool:
    """Whether rows give the same bits among 1, 2, 7 and 64."""
    generator = torch.Generator().manual_seed(n)
    inputs = operations.OPERATIONS[op].sample((64, n), dtype, -1, generator=generator)
    whole = results(backend, op, inputs, slice(None), **named)
    parts = [slice(0, 1), slice(63, 64), slice(5, 7), slice(1, 8)]
    return all(
        torch.equal(one, out[rows])
        for rows in parts
        for one, out in zip(results(backend, op, inputs, rows, **named), whole, strict=True)
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, about lanes of rows past the last
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("backend", RUNNING)
def test_a_row_gives_the_same_bits_among_any_number_of_rows(backend: str, op: str) -> None:
    lengths = (7, 24, 300, 1001) + (20000,) * (backend in ("cpu", "triton"))
    for n in lengths:
        for dtype in ("float32", "bfloat16")[: 1 + (n < 1000)]:
            assert alike(backend, op, n, dtype, batch_invariant=True), (n, dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", RUNNING)
def test_a_row_gives_the_same_bits_wherever_it_begins(backend: str) -> None:
    """At any element of a vector, alone and among others, in each form; NaN and infinities are those of torch."""
    softmax = partial(kernelzoo.get(backend).softmax, batch_invariant=True)
    for n in (9, 77, 781) + (50257,) * (backend in ("cpu", "cupy")):
        x = (4 * torch.randn(8, n, generator=torch.Generator().manual_seed(n))).bfloat16()
        x[1, n // 2], x[2, -1], x[3], x[4, 0], x[5], x[6, :-1] = torch.nan, torch.inf, -torch.inf, -torch.inf, 1, -20
        whole = softmax(x)
        assert torch.equal(whole.isnan(), torch.softmax(x, -1).isnan())
        for start in range(8):
            for rows in (slice(None), slice(start, start + 1)):
                some = torch.empty(8 * n + start, dtype=x.dtype)[start : start + x[rows].numel()].view(-1, n)
                assert torch.equal(bits(softmax(some.copy_(x[rows]))), bits(whole[rows])), (n, start, rows)
        exact = ("fused", "multi_row", "split") if backend in ("cupy", "numba") and n == 77 else ()
        assert all(torch.equal(bits(softmax(x, variant=variant)), bits(whole)) for variant in exact)


@pytest.mark.parametrize(
    ("backend", "op", "n"), [("cpu", "softmax", 7), ("triton", "sum", 1001), ("triton", "cumsum", 20000)]
)
def test_other_calls_may_give_other_bits(backend: str, op: str, n: int) -> None:
    if backend not in RUNNING:
        pytest.skip(f"no kernel of {backend} runs here")
    assert not alike(backend, op, n) and alike(backend, op, n, batch_invariant=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("backend", "variant", "n"),
    [("triton", "split", 5001), ("cutile", "split_two_launches", 9001), ("cutile", "fused", 781)],
)
def test_rows_that_are_read_by_vectors_from_where_they_begin(backend: str, variant: str, n: int, dtype: str) -> None:
    """Their vectors begin at other elements in each row: sums of exponentials that round would differ."""
    if backend not in RUNNING:
        pytest.skip(f"no kernel of {backend} runs here")
    assert alike(backend, "softmax", n, dtype, batch_invariant=True, variant=variant)
    x = torch.randn(3, n).to(getattr(torch, dtype))
    x[0, 5], x[1, n - 1] = float("nan"), float("inf")
    found = kernelzoo.get(backend).softmax(x, batch_invariant=True, variant=variant)
    torch.testing.assert_close(found.double(), x.double().softmax(-1), rtol=1e-2, atol=1e-6, equal_nan=True)


def same(one: Any, row_count: int, other: Any, other_count: int) -> bool:
    """Whether two plans are the same, but where each has its number of rows."""
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=True)
        return len(one) == len(other) and all(same(a, row_count, b, other_count) for a, b in pairs)
    return bool(one == other) or (str(one), str(other)) == (str(row_count), str(other_count))


def plan(i: registry.Implementation, rows: int, n: int, dtype: str, invariant: bool) -> list[tuple[Any, ...]]:
    """A launch's kernels, threads and numbers, and no grid."""
    with record_binds() as steps:
        args = Request(i.backend, i.op, i.variant, (rows, n), dtype, -1, "sm_90").arguments("meta")
        bind = partial(registry.make_bound_launch, i.id, registry._registered[i.backend, i.op, i.variant])
        launch = partial(i.operation.make_batch_invariant_launch, i.id) if invariant else i.operation.make_launch
        launch(bind, args, i.operation.allocate(args))
    assert all(isinstance(step, LaunchStep) for step in steps)
    return [
        (s.kernel, s.threads, s.shared_bytes, s.cluster, s.cooperative, s.arguments, s.constants, s.block)
        for s in steps
    ]


@pytest.mark.parametrize("backend", LANGUAGES)
def test_launches_of_one_row_and_of_many_are_the_same_but_for_the_grid(backend: str) -> None:
    if {"TRITON_INTERPRET", "NUMBA_ENABLE_CUDASIM", "KERNELZOO_EMULATE_PTX"} & {*os.environ}:
        pytest.skip("kernels are made to run on the host here, and not for a device that is described")
    seen, differ = 0, 0
    with simulate_device(backend, ARCHITECTURES["sm_90"]):
        for i in kernelzoo.implementations(backend):
            if not (i.operation.rounds and i.operation.separable):
                continue
            for n in LENGTHS[:: 3 if backend == "helion" else 1]:  # which makes each program for seconds
                for dtype in ("float32", "bfloat16"):
                    if dtype not in i.operation.dtypes:
                        continue
                    try:
                        plans = {rows: plan(i, rows, n, dtype, True) for rows in COUNTS}
                        usual = {rows: plan(i, rows, n, dtype, False) for rows in (1, 512)}
                    except UnsupportedProblemError:
                        assert i.variant != "auto"
                        continue
                    if not all(re.search("exact=True|, true>", step[0]) for made in plans.values() for step in made):
                        for rows, made in plans.items():
                            assert same(made, rows, plans[64], 64), (i.id, n, dtype, rows)
                    seen += 1
                    differ += [step[0] for step in usual[1]] != [step[0] for step in usual[512]]
    assert seen > 100 and differ > 5


def test_the_contract_holds() -> None:
    """The layouts and special values too: other layouts are copied."""
    for op, variant in (("softmax", "auto"), ("sum", "rows")):
        small = [case for case in cases(op) if case.core or ("float32" in case.name and case.elements < 2000)]
        for case in small[::3]:
            check(kernelzoo.implementation(f"cpu/{op}/{variant}+batch_invariant"), case, "cpu")


def test_several_axes_and_others_than_the_last() -> None:
    x = torch.randn(6, 40, 9, 5)
    backend = kernelzoo.get("cpu")
    whole = backend.sum(x, dim=(1, 3), batch_invariant=True)
    for keepdim in (False, True):
        one = backend.sum(x[2:3, :, 4:5].clone(), (1, 3), keepdim, batch_invariant=True)
        assert torch.equal(one.flatten(), whole[2, 4].flatten())
    columns = backend.softmax(x, dim=1, batch_invariant=True)
    assert torch.equal(columns[0, :, 3, 2], backend.softmax(x[0, :, 3, 2], batch_invariant=True))
    out = torch.empty(5, 9, 40, 6).permute(3, 2, 1, 0)
    assert torch.equal(backend.softmax(x, dim=1, batch_invariant=True, out=out), columns) and out.stride(0) == 1


def test_a_lazily_negated_weight_is_read_as_it_is() -> None:
    """Though no row is copied."""
    x, weight = torch.randn(3, 8), torch.randn(8)
    found = kernelzoo.get("cpu").rms_norm(x, torch._neg_view(-weight), batch_invariant=True)
    assert torch.equal(found, kernelzoo.get("cpu").rms_norm(x, weight, batch_invariant=True))


def test_a_gradient_is_batch_invariant_too() -> None:
    x, weights = torch.randn(64, 24, requires_grad=True), torch.randn(64, 24)

    def gradient(rows: slice) -> torch.Tensor:
        some = x.detach()[rows].clone().requires_grad_()
        for _ in range(2):  # of a repeated call too
            some.grad = None
            (kernelzoo.get("cpu").softmax(some, batch_invariant=True) * weights[rows]).sum().backward()  # type: ignore[no-untyped-call]
        assert some.grad is not None
        return some.grad

    whole = gradient(slice(None))
    assert all(torch.equal(gradient(rows), whole[rows]) for rows in (slice(0, 1), slice(3, 5)))


def test_what_can_not_promise_it_refuses() -> None:
    x = torch.randn(3, 5)
    for call in (kernelzoo.get("torch").softmax, partial(kernelzoo.get("torch").softmax, variant="naive")):
        with pytest.raises(UnsupportedProblemError, match="without batch_invariant"):
            call(x, batch_invariant=True)
    with pytest.raises(UnsupportedProblemError, match="sum over rows"):
        kernelzoo.get("cpu").rms_norm_backward(x, torch.ones(5), x, batch_invariant=True)
    with pytest.raises(kernelzoo.UnknownNameError, match="no_such"):
        kernelzoo.get("cpu").softmax(x, variant="no_such", batch_invariant=True)
    assert torch.equal(kernelzoo.get("torch").min(x, batch_invariant=True), x.amin(-1))  # exact, and so always the same


def test_it_travels_through_torch_and_as_an_id() -> None:
    from kernelzoo import nn

    x = torch.randn(64, 7)
    want = kernelzoo.get("cpu").softmax(x, batch_invariant=True)
    assert torch.equal(kernelzoo.softmax(x, batch_invariant=True), want)
    assert torch.equal(nn.Softmax(backend="cpu", batch_invariant=True)(x), want)
    assert torch.equal(torch.ops.kernelzoo.softmax(x, -1, "cpu", "auto+batch_invariant"), want)
    assert torch.equal(torch.func.vmap(partial(kernelzoo.get("cpu").softmax, batch_invariant=True))(x), want)
    named = kernelzoo.implementation("cpu/softmax/auto+batch_invariant")
    assert named.batch_invariant and named.id == "cpu/softmax/auto+batch_invariant"
    out = torch.empty_like(x)
    named.launch(x, out=out)()
    assert torch.equal(out, want)
