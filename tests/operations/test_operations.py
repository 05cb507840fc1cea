"""The operations: what they refuse, their canonical form, and that their checks can fail."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_input import MIN, SOFTMAX, launched, sample
from one_input import expected as right_values
from running_here import backends

import kernelzoo
from kernelzoo import errors, operations
from kernelzoo.errors import RangeError
from kernelzoo.launch import Launch, void
from kernelzoo.measure import Problem
from kernelzoo.operations import rows
from kernelzoo.operations.expected import rounded_to
from kernelzoo.operations.memory import overlap
from kernelzoo.testing import tensors

BACKEND = kernelzoo.get("torch")
X = torch.randn(4, 5)
GRADED = X.clone().requires_grad_()
VAST = torch.zeros(1).expand(2**20, 2**20)


@pytest.mark.parametrize(
    ("call", "error", "builtin", "words"),
    [
        (lambda: BACKEND.softmax([1.0]), kernelzoo.InputTypeError, TypeError, "got builtins.list"),
        (lambda: BACKEND.softmax(X.int()), kernelzoo.InputTypeError, TypeError, "got int32"),
        (lambda: BACKEND.softmax(X.to(torch.complex64)), kernelzoo.InputTypeError, TypeError, "got complex64"),
        (lambda: BACKEND.min(X.to(torch.complex64)), kernelzoo.InputTypeError, TypeError, "int64; got complex64"),
        (lambda: BACKEND.softmax(X.to_sparse()), kernelzoo.InputTypeError, TypeError, "sparse"),
        (lambda: BACKEND.softmax(X, 2), kernelzoo.AxisError, IndexError, "allowed: -2 to 1"),
        (lambda: BACKEND.softmax(X, -3), kernelzoo.AxisError, IndexError, "axis -3"),
        (lambda: BACKEND.softmax(X, (0, 1)), kernelzoo.AxisError, IndexError, "one axis"),
        (lambda: BACKEND.softmax(X, None), kernelzoo.AxisError, IndexError, "dim=None"),
        (lambda: BACKEND.softmax(torch.tensor(1.0), 1), kernelzoo.AxisError, IndexError, "0 dimensions"),
        (lambda: BACKEND.min(X, (0, -2)), kernelzoo.AxisError, IndexError, "twice"),
        (lambda: BACKEND.min(X, (0, 1.0)), kernelzoo.AxisError, IndexError, "1.0"),
        (lambda: BACKEND.min(X, True), kernelzoo.AxisError, IndexError, "True"),
        (lambda: BACKEND.min(torch.ones(3, 0)), kernelzoo.EmptyReductionError, ValueError, "axis 1 of shape (3, 0)"),
        (lambda: BACKEND.min(torch.ones(0, 0), ()), kernelzoo.EmptyReductionError, IndexError, "axis 0"),
        (lambda: BACKEND.softmax(GRADED, out=torch.ones(4, 5)), kernelzoo.GradientError, RuntimeError, "without out="),
        (lambda: BACKEND.softmax(X, out=[1.0]), kernelzoo.OutputError, ValueError, "got builtins.list"),
        (lambda: BACKEND.softmax(X, out=torch.ones(5, 4)), kernelzoo.OutputError, ValueError, "(4, 5), got (5, 4)"),
        (lambda: BACKEND.softmax(X, out=X.double()), kernelzoo.OutputError, ValueError, "float32, got float64"),
        (lambda: BACKEND.softmax(X, out=X.to("meta")), kernelzoo.OutputError, ValueError, "device cpu, got meta"),
        (lambda: BACKEND.softmax(X, out=X), kernelzoo.OutputError, ValueError, "must not overlap x"),
        (lambda: BACKEND.softmax(X, out=torch.ones(1, 5).expand(4, 5)), kernelzoo.OutputError, ValueError, "once"),
        (lambda: BACKEND.min(X, 0, out=X[0]), kernelzoo.OutputError, ValueError, "must not overlap x"),
        (lambda: BACKEND.min(X, 0, True, out=torch.ones(5)), kernelzoo.OutputError, ValueError, "(1, 5), got (5,)"),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[Exception], builtin: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, kernelzoo.KernelZooError)
    assert isinstance(caught.value, builtin)
    assert words in str(caught.value)


def test_interleaved_out_is_no_overlap() -> None:
    """Exact, not by extent: the even columns may be written while the odd ones are read."""
    both = torch.randn(6, 10)
    x, out = both[:, 1::2], both[:, ::2]
    assert not overlap(x, out)
    expected = torch.softmax(x.clone(), -1)
    BACKEND.softmax(x, out=out)
    torch.testing.assert_close(out, expected)
    assert overlap(both[:, ::2], both[:, 2:7])
    with pytest.raises(kernelzoo.OutputError, match="overlap"):
        BACKEND.softmax(both[:, :5], out=both[:, 4:9])


SOFTMAX_LIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeros": torch.zeros_like,
    "uniform": lambda right: torch.full_like(right, 1 / right.size(1)),
    "shifted by a row": lambda right: right.roll(1, 0),
    "shifted by a column": lambda right: right.roll(1, 1),
    "not normalised": lambda right: right * 1.01,
    "NaN": lambda right: torch.full_like(right, math.nan),
}


@pytest.mark.parametrize("dtype", operations.FLOATS)
@pytest.mark.parametrize("columns", [2, 129, 4096, 300_000])
def test_softmax_check_catches(dtype: str, columns: int) -> None:
    x = sample("softmax", (3, columns), dtype, generator=torch.Generator().manual_seed(columns))
    expected = right_values(SOFTMAX, x)
    (right,) = SOFTMAX.reference(SOFTMAX.arguments((x,)))
    right = right.to(x.dtype)
    expected.check(right)
    for lie in SOFTMAX_LIES.values():
        with pytest.raises(AssertionError, match="elements wrong"):
            expected.check(lie(right))


def test_softmax_check_catches_a_lost_offset() -> None:
    """exp2(x * c - max * c) loses digits on rows far from zero; exp2((x - max) * c) does not."""
    x = torch.randn(4, 500) + 5000
    scale = math.log2(math.e)
    weights = torch.exp2(x * scale - (x.amax(1, keepdim=True) * scale))
    with pytest.raises(AssertionError, match="elements wrong"):
        SOFTMAX.assert_close(weights / weights.sum(1, keepdim=True), x)
    weights = torch.exp2((x - x.amax(1, keepdim=True)) * scale)
    SOFTMAX.assert_close(weights / weights.sum(1, keepdim=True), x)


@pytest.mark.parametrize("dtype", operations.FLOATS + operations.INTEGERS)
def test_min_check_catches(dtype: str) -> None:
    x = sample("min", (7, 300), dtype, generator=torch.Generator().manual_seed(1))
    right = x.amin(1)
    MIN.assert_close(right, x)
    lies = [right.roll(1), torch.zeros_like(right), torch.full_like(right, right[0].item())]
    for lie in lies:
        with pytest.raises(AssertionError, match="elements wrong"):
            MIN.assert_close(lie, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("up", [True, False])
def test_bounds_are_rounded_inwards(dtype: torch.dtype, up: bool) -> None:
    """To the last value of the dtype that is within, so that a narrow dtype loosens no bound, and tightens none."""
    generator = torch.Generator().manual_seed(3)
    scale = torch.tensor([1.0, 1e-3, 1e-7, 1e-30, 1e-39, 1e-45, 0.0], dtype=torch.float64)
    exact = (torch.randn(7, 1000, dtype=torch.float64, generator=generator) * scale[:, None]).flatten()
    rounded = rounded_to(exact.clone(), dtype, up=up)
    beyond = torch.nextafter(rounded, torch.full_like(rounded, -math.inf if up else math.inf))
    assert bool((rounded.double() >= exact if up else rounded.double() <= exact).all())
    assert bool((beyond.double() < exact if up else beyond.double() > exact).all())
    assert bool(rounded_to(torch.full((1,), math.nan, dtype=torch.float64), dtype, up=up).isnan().all())


@pytest.mark.parametrize(
    ("module", "name", "least", "near"), [(rows, "_PART", {"cpu": 20}, 2e-7), (operations.meaning, "_PIECE", 8, 0)]
)
def test_parts_change_no_bound(monkeypatch, module, name: str, least: Any, near: float) -> None:
    """A large tensor is taken in parts of whole rows, along whichever axis, and its bounds in pieces."""
    x = torch.randn(5, 6, 7, generator=torch.Generator().manual_seed(4))
    x[3, 2] = math.inf
    for dim in (0, 1, -1):
        whole = right_values(SOFTMAX, x, dim)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, least)
            in_parts = right_values(SOFTMAX, x, dim)
        assert whole.lower[3, 2].isnan().all()
        torch.testing.assert_close(in_parts.lower, whole.lower, rtol=near, atol=0, equal_nan=True)
        torch.testing.assert_close(in_parts.upper, whole.upper, rtol=near, atol=0, equal_nan=True)
        in_parts.check(torch.softmax(x, dim))


def test_checks_catch_shape_and_dtype() -> None:
    right = torch.softmax(X, -1)
    for wrong, words in ((right.t(), "shape"), (right.double(), "dtype"), (right.to("meta"), "device")):
        with pytest.raises(AssertionError, match=words):
            SOFTMAX.assert_close(wrong, X)


def copying(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Stands in for a kernel: copies its canonical input, or takes its minimum."""
    assert x.ndim == 3
    assert 0 not in x.shape
    return lambda: void(out.copy_(x if out.ndim == 3 else x.amin(1)))


@settings(max_examples=400, deadline=None)
@given(tensors("min", 5), st.data())
def test_canonical_form_is_the_same_tensor(x: torch.Tensor, data: st.DataObject) -> None:
    """Whatever the layout and axes, a row of the canonical form is a row of x, and lands in its place in the output."""
    dim = data.draw(st.integers(-max(x.ndim, 1), max(x.ndim, 1) - 1))
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    launched(SOFTMAX, copying, x, dim, out)()
    torch.testing.assert_close(out, x, rtol=0, atol=0, equal_nan=True)
    dims = tuple(data.draw(st.sets(st.integers(0, max(x.ndim, 1) - 1)))) if x.ndim else (0,)
    keepdim = data.draw(st.booleans())
    args = MIN.arguments((x,), dims, keepdim)
    (smallest,) = MIN.allocate(args)
    MIN.make_launch(copying, args, (smallest,))()
    torch.testing.assert_close(smallest, torch.amin(x, dims, keepdim), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("view", "dim", "shape", "strides"),
    [
        (torch.empty(6, 7), 1, (6, 7, 1), (7, 1, 1)),
        (torch.empty(6, 7), 0, (1, 6, 7), (1, 7, 1)),
        (torch.empty(2, 3, 4, 5), 3, (24, 5, 1), (5, 1, 1)),
        (torch.empty(2, 3, 4, 5), 2, (6, 4, 5), (20, 5, 1)),
        (torch.empty(6, 9)[:, 1:8:2], 1, (6, 4, 1), (9, 2, 1)),
        (torch.empty(4, 6, 7)[:, 1:], 2, (4, 7, 5), (42, 1, 7)),
    ],
)
def test_canonical_form_copies_nothing(
    view: torch.Tensor, dim: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    seen = []

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        seen.append((tuple(x.shape), x.stride(), x.data_ptr()))
        return lambda: None

    launched(SOFTMAX, bind, view, dim, torch.empty(view.shape))
    assert seen == [(shape, strides, view.data_ptr())]


def test_an_empty_axis_of_a_strided_tensor() -> None:
    """It merges with no other, and the tensor counts as contiguous."""
    x = torch.zeros(4, 6, 8, 10)[::2, :0, ::2, ::2]
    for name in {"torch", kernelzoo.calls.backend.best("sum", x).name}:
        backend = kernelzoo.get(name)
        for dims in (1, (1, 3)):
            assert torch.equal(backend.sum(x, dims), x.sum(dims))
        assert torch.equal(backend.logsumexp(x, 1), x.logsumexp(1))
        assert torch.equal(backend.quantize_rows(x, 1)[1], torch.ones(2, 4, 5))


def test_bytes_moved() -> None:
    def moved(op: operations.Operation, x: torch.Tensor, dim: int = -1) -> int:
        return op.bytes_moved(op.arguments((x,), dim))

    assert moved(SOFTMAX, torch.empty(6, 7)) == 2 * 6 * 7 * 4
    assert moved(MIN, torch.empty(6, 7)) == (6 * 7 + 6) * 4
    assert moved(MIN, torch.empty(1, 7, dtype=torch.float16).expand(6, 7), 0) == (7 + 7) * 2
    assert moved(SOFTMAX, torch.empty(0, 7)) == 0


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda: BACKEND.softmax(VAST), r"the result asks for 4398\.0 GB of memory, and \S+ GB are"),
        (lambda: BACKEND.min(VAST[..., None], -1), r"the result asks for 4398\.0 GB of memory, and \S+ GB are"),
        (lambda: Problem("softmax", (2**31, 2**30), "float16").bytes, "a tensor of 2305843009213693952 elements asks"),
    ],
)
def test_what_no_memory_holds_is_the_package_s_error(use: Callable[[], object], told: str) -> None:
    with pytest.raises(errors.NoRoomError, match=told) as caught:
        use()
    assert isinstance(caught.value, MemoryError | RuntimeError)


DEVICES = {name: device for name, device in backends().items() if kernelzoo.get(name).variants("cross_entropy")}


@pytest.mark.parametrize("backend", DEVICES)
@pytest.mark.parametrize("label", [-1, 5, 2**40])
def test_a_label_out_of_range(backend: str, label: int) -> None:
    """An error on the host, each time; NaN on a GPU, where a check would have to wait for the device."""
    device = DEVICES[backend]
    x, labels = torch.randn(2, 3, 5, device=device), torch.zeros(2, 3, dtype=torch.int64, device=device)
    right = kernelzoo.get(backend).cross_entropy(x, labels)
    labels[1, 2] = label
    for _ in range(2):
        if device == "cpu":
            with pytest.raises(RangeError, match=rf"takes labels from 0 to 4 or -100; got {label}$") as raised:
                kernelzoo.get(backend).cross_entropy(x, labels)
            assert isinstance(raised.value, IndexError) and pickle.loads(pickle.dumps(raised.value)).args
        else:
            loss = kernelzoo.get(backend).cross_entropy(x, labels)
            assert loss[1, 2].isnan() and torch.equal(loss.flatten()[:5], right.flatten()[:5])
    kernelzoo.get(backend).cross_entropy(x, labels, ignore_index=label)
