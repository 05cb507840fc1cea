"""Operations on an axis that ranks share: the contract over all shards, with 2, 3 and 4 processes on gloo."""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.distributed
from ranks import Ranks

from kernelzoo import operations

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")


SOFTMAX, MIN = operations.OPERATIONS["softmax"], operations.OPERATIONS["min"]
INF, NAN = math.inf, math.nan
COUNTS = [pytest.param(count, marks=pytest.mark.xdist_group("ranks"), id=str(count)) for count in (2, 3, 4)]
"""One of pytest-xdist's processes starts all that groups take: each would take seconds to start its own."""


@pytest.fixture(scope="module", params=COUNTS)
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    made = Ranks(request.param, tmp_path_factory.mktemp("ranks"))
    yield made
    made.close()


def sizes_of(n: int, count: int, how: str) -> list[int]:
    """How an axis of n elements is cut: evenly, unevenly, or with an empty shard first."""
    if how == "evenly":
        return [n // count + (rank < n % count) for rank in range(count)]
    if how == "unevenly":
        return [n - 3 * (count - 1), *[3] * (count - 1)]
    return [0, *sizes_of(n, count - 1, "evenly")]


def need(backend: str, ranks: Ranks) -> None:
    """Of the host's backend two ranks are enough, since each process takes seconds to load its kernels."""
    if backend == "cpu" and pytest.importorskip("numba") and ranks.count > 2:
        pytest.skip("two ranks see the host's kernels")


def drawn(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))).to(dtype)


@pytest.mark.parametrize("how", ["evenly", "unevenly", "empty"])
def test_softmax(ranks: Ranks, how: str) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for shape, dim in (((5, 301), -1), ((301, 5), 0), ((3, 41, 4), 1)):
            x = drawn(shape, dtype)
            found = ranks.run("softmax", x, sizes_of(x.size(dim), ranks.count, how), dim, "torch")
            SOFTMAX.assert_close(torch.cat(found, dim), x, dim)


def special_rows() -> torch.Tensor:
    """Rows whose special values are on one rank and not another, of 40 elements and up to four ranks."""
    x = drawn((12, 40), torch.float32)
    x[0, 3] = NAN
    x[1, 39] = -NAN
    x[2, 20] = INF
    x[3, :] = -INF
    x[4, :20] = -INF  # all of the first of two, and of the first two of four
    x[5, 25:] = -INF
    x[6] = torch.linspace(0, 1, 40) * 1e-39
    x[7, ::2], x[7, 1::2] = 3e38, -3e38
    x[8] = -3e38
    x[9, 1:], x[9, 0] = -INF, -3e38
    x[10, 0], x[10, 39] = INF, -INF
    x[11] += 1e6
    return x


@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_special_values(ranks: Ranks, backend: str) -> None:
    need(backend, ranks)
    x = special_rows()
    for how in ("evenly", "unevenly"):
        sizes = sizes_of(40, ranks.count, how)
        SOFTMAX.assert_close(torch.cat(ranks.run("softmax", x, sizes, -1, backend), 1), x)
        for twice in ranks.run("minimum", x, sizes, -1, False, backend):
            for found in twice:
                MIN.assert_close(found, x)


def test_shards_in_parts(ranks: Ranks) -> None:
    """Few long rows are cut into parts on a GPU: whole ones, a rest, and some that are empty."""
    for n in (64 * 7 * ranks.count, 1999, 70):
        x = drawn((3, n), torch.float32)
        for how in ("evenly", "unevenly", "empty"):
            found = ranks.run("cut_softmax", x, sizes_of(n, ranks.count, how), -1, "torch")
            SOFTMAX.assert_close(torch.cat(found, 1), x)


def test_minimum_of_every_dtype(ranks: Ranks) -> None:
    for name in MIN.dtypes:
        dtype = getattr(torch, name)
        x = torch.randint(0, 2 if name == "bool" else 100, (4, 21, 3), generator=torch.Generator().manual_seed(7))
        x = x.to(dtype)
        for dim, keepdim in ((1, False), (0, True)):
            sizes = sizes_of(x.size(dim), ranks.count, "empty")
            for twice in ranks.run("minimum", x, sizes, dim, keepdim, "torch"):
                for found in twice:
                    MIN.assert_close(found, x, dim, keepdim)


def test_gradients(ranks: Ranks) -> None:
    x = drawn((4, 30), torch.float64).round()  # equal minima, some on several ranks
    weights = drawn((4, 30), torch.float64)
    whole = x.clone().requires_grad_()
    (whole.softmax(1) * weights).sum().backward()
    of_softmax, whole.grad = whole.grad, None
    (whole.amin(1) * weights[:, 0]).sum().backward()
    for how in ("evenly", "unevenly", "empty"):
        found = ranks.run("gradients", x, sizes_of(30, ranks.count, how), 1, weights)
        torch.testing.assert_close(torch.cat([one for one, _ in found], 1), of_softmax, rtol=0, atol=1e-14)
        torch.testing.assert_close(torch.cat([one for _, one in found], 1), whole.grad, rtol=0, atol=1e-14)


def gradient_inputs(op: str, shape: tuple[int, ...], dtype: torch.dtype, dim: int) -> tuple[torch.Tensor, ...]:
    """Of a softmax; of a minimum, which has equal ones on several ranks, and a row with a NaN on the last rank."""
    x = drawn(shape, dtype)
    if op == "softmax_backward":
        return x, drawn(shape[::-1], dtype).reshape(shape).softmax(dim)
    x = x.round()
    x.movedim(dim, -1)[0, ..., -1] = NAN
    return x, x.amin(dim), drawn(shape, dtype).select(dim, 0).clone()


@pytest.mark.parametrize("op", ["softmax_backward", "min_backward"])
def test_gradients_alone(ranks: Ranks, op: str) -> None:
    """To the bounds of the gradient of the whole, on any axis, of shards of any length, and of few rows in parts."""
    operation = operations.OPERATIONS[op]
    for dtype in (torch.float32, torch.bfloat16):
        for shape, dim, parts in (((5, 301), 1, 0), ((301, 5), 0, 0), ((3, 41, 4), 1, 0), ((3, 1999), 1, 7)):
            inputs = gradient_inputs(op, shape, dtype, dim)
            for how in ("evenly", "unevenly", "empty"):
                sizes = sizes_of(shape[dim], ranks.count, how)
                found = ranks.run("gradient", op, inputs, sizes, dim, "torch", parts)
                operation.assert_close(torch.cat(found, dim), inputs, dim)


def test_a_backend_without_passes_has_torch_s(ranks: Ranks) -> None:
    """On the host, whose own minimum there is: results are torch's to the bit, gradients too."""
    need("cpu", ranks)
    x, sizes = drawn((5, 30), torch.float32), sizes_of(30, 2, "unevenly")
    for name, *more in (("softmax", x, sizes, 1), ("gradients", x.round(), sizes, 1, x)):
        found, expected = ranks.run(name, *more, "cpu"), ranks.run(name, *more, "torch")
        for own, other in zip(found, expected, strict=True):
            torch.testing.assert_close(own, other, rtol=0, atol=0)


def meshes(count: int) -> list[tuple[list[int | None], list[int], int]]:
    """Placements, the mesh's shape, and the axis of the operation."""
    one: list[tuple[list[int | None], list[int], int]] = [([1], [count], 1), ([0], [count], 1), ([None], [count], 1)]
    if count == 4:
        one += [([0, 1], [2, 2], 1), ([1, 1], [2, 2], 1), ([1, None], [2, 2], 1)]
    return one


def test_dtensors(ranks: Ranks) -> None:
    x = drawn((6, 37), torch.float32)
    whole = x.clone().requires_grad_()
    (whole.softmax(1) ** 2).sum().backward()
    for placed, shape, dim in meshes(ranks.count):
        for y, places, least, less, grad, most in ranks.run("on_dtensor", x, placed, shape, dim):
            SOFTMAX.assert_close(y, x, dim)
            MIN.assert_close(least, x, dim)
            torch.testing.assert_close(grad, whole.grad, rtol=1e-5, atol=1e-7)
            said = "".join("Replicate()" if at is None else f"Shard(dim={at})" for at in placed)
            assert places.replace(", ", "").strip("(,)") in (said, said.strip("(,)"))
            assert "Shard(dim=1)" not in less
            # Nothing leaves a rank but a pair of each row, and that only where the axis is shared.
            assert most == (2 * 6 // (shape[0] if 0 in placed else 1) if dim in placed else 0)


def test_an_axis_that_is_empty_everywhere(ranks: Ranks) -> None:
    x = torch.empty(3, 0)
    assert all(y.shape == (3, 0) for y in ranks.run("softmax", x, [0] * ranks.count, 1, "torch"))
    for how, what in ranks.each("minimum", x, [0] * ranks.count, 1, False, "torch"):
        assert how == "raised" and what[0] == "EmptyReductionError"


def test_ranks_of_other_rows_are_refused(ranks: Ranks) -> None:
    for how, what in ranks.each("of_rows", [3, *[4] * (ranks.count - 1)]):
        assert how == "raised" and what[0] == "ShapeError" and "rank 0 6 of 4 bytes, rank 1 8 of 4 bytes" in what[1]
    ranks.run("of_rows", [3] * ranks.count)  # and the group works on


@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_one_shard_in_groups_of_several_sizes(ranks: Ranks, backend: str) -> None:
    """What is kept for a layout is bound to as many ranks as the group has."""
    need(backend, ranks)
    x = drawn((5, 40 * ranks.count), torch.float32)
    sizes = [40] * ranks.count
    found = ranks.run("in_groups", x, sizes, backend)
    for (first, least, _, whole, again, twice), own in zip(found, torch.split(x, sizes, 1), strict=True):
        for y, m in ((first, least), (again, twice)):
            SOFTMAX.assert_close(y, own)
            MIN.assert_close(m, own)
        MIN.assert_close(whole, x)
    SOFTMAX.assert_close(torch.cat([one[2] for one in found], 1), x)


def test_a_rank_outside_of_the_group_is_told(ranks: Ranks) -> None:
    inside, *outside = ranks.each("as_no_member")
    assert inside[0] == "done"
    assert all(how == "raised" and what[0] == "PeerError" and "member" in what[1] for how, what in outside)


@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_calls_keep_no_tensors(ranks: Ranks, backend: str) -> None:
    need(backend, ranks)
    assert ranks.run("kept_tensors", backend) == [[]] * ranks.count


@pytest.mark.xdist_group("ranks")
@pytest.mark.parametrize("how", ["raises", "ends"])
def test_a_rank_that_fails(tmp_path: pytest.TempPathFactory, how: str) -> None:
    timeout = 1
    made = Ranks(2, tmp_path, timeout)  # type: ignore[arg-type]
    try:
        if how == "raises":
            (waiting, failing) = made.each("fails", how)
            assert failing[0] == "raised" and failing[1][0] == "InputTypeError"
        else:
            made._pipes[1].send(("fails", (how,)))
            (waiting,) = made.each("fails", how, ranks=(0,))
        assert waiting[0] == "raised" and waiting[1][0] == "PeerError", waiting
        waited = float(waiting[1][1].split()[-2])
        assert waited < timeout + 3
    finally:
        made.close()
