"""What a compiler makes of a language's kernels, run in the emulator of tests/emulation: :class:`Emulated`."""

from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from compiled_steps import Binds

from kernelzoo import operations
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import Launch

Inputs = tuple[torch.Tensor, ...]
FLOATS = (torch.float32, torch.bfloat16, torch.float64)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

HELD = ("rms_norm", "add_rms_norm", "layer_norm", "quantize_rows", "rms_norm_backward", "layer_norm_backward")
"""Operations whose rows are held on chip where they fit, and read again where they don't."""


def special(shape: tuple[int, int], axis: int, dtype: Any) -> torch.Tensor:
    """Rows of which one has a NaN, one infinity, one -inf here and there, one nothing else, one it at its end."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    rows = x if axis == 1 else x.T
    n = rows.shape[1]
    rows[0, n // 2] = float("nan")
    rows[1, n // 3] = float("inf")
    rows[2, ::3] = -float("inf")
    rows[3] = -float("inf")
    rows[4, n // 2 :] = -float("inf")
    return x


def long_rows(op: operations.Operation, shape: tuple[int, int], dim: int, dtype: str) -> Inputs:
    """Inputs of five rows, with infinities, a NaN and equal minima far apart."""
    inputs = op.sample(shape, dtype, dim, generator=torch.Generator().manual_seed(0))
    rows = inputs[0] if dim else inputs[0].t()
    rows[0, [5000, -1]] = -9.0
    rows[1, 7000] = float("nan")
    rows[2, :4096] = rows[3] = -float("inf")
    rows[4, 8000] = float("inf")
    return inputs


def inputs_of(op: operations.Operation, x: torch.Tensor, axis: int, gradient: torch.Tensor | None = None) -> Inputs:
    """An operation's inputs, of which x is the one, or what it is of; gradients of a minimum are 0, 1, 2, ..."""
    if op.name == "softmax_backward":
        return (x if gradient is None else gradient), x.softmax(axis)
    if op.name == "min_backward":
        least = x.amin(axis)
        return x, least, torch.arange(least.numel()).reshape(least.shape).to(x.dtype)
    return (x,)


def expected(op: operations.Operation, axis: int, inputs: Inputs) -> torch.Tensor:
    """By torch, in float64."""
    return {
        "softmax": lambda x: x.softmax(axis),
        "min": lambda x: x.amin(axis),
        "softmax_backward": lambda g, y: y * (g - (g * y).sum(axis, keepdim=True)),
        "min_backward": lambda x, y, g: (
            (equal := x == y.unsqueeze(axis)) * g.unsqueeze(axis) / equal.sum(axis, keepdim=True)
        ),
    }[op.name](*(tensor.double() for tensor in inputs))


class Emulated:
    """The tests of a language whose ``stand_in`` takes a device's place."""

    backend: ClassVar[ModuleType]
    machine: ClassVar[Any]
    language: ClassVar[str]
    forms: ClassVar[list[tuple[operations.Operation, str]]]
    shapes: ClassVar = (((7, 100), 1), ((6, 2500), 1), ((100, 33), 0), ((64, 32), 1))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "a_shape" in metafunc.fixturenames:
            metafunc.parametrize(("op", "form"), self.forms, ids=lambda value: getattr(value, "name", value))
            metafunc.parametrize(("a_shape", "axis"), self.shapes, ids=str)

    @pytest.fixture(autouse=True)
    def here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.backend, "stand_in", self.machine())

    def bound(self, op: operations.Operation, form: str, axis: int, inputs: Inputs) -> tuple[Launch, torch.Tensor]:
        """A launch, and its result, which is seven before it."""
        args = operations.Arguments(inputs, (axis,))
        (out,) = outs = op.allocate(args)
        launch = op.make_launch(Binds(self.language).bind(op, form), args, outs)
        return launch, out.fill_(7)

    def right(
        self, op: operations.Operation, form: str, axis: int, inputs: Inputs, rtol: float, atol: float, times: int = 2
    ) -> None:
        """Raise AssertionError where a result is wrong; a launch leaves its workspace as it was."""
        launch, out = self.bound(op, form, axis, inputs)
        for _ in range(times):
            out.fill_(7)
            launch()
            torch.testing.assert_close(out.double(), expected(op, axis, inputs), rtol=rtol, atol=atol, equal_nan=True)

    @pytest.mark.sampled(6, "op", "form")
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_compiled_kernels_compute_what_they_should(self, op, form, a_shape, axis, dtype) -> None:
        gradient = torch.randn(a_shape, generator=torch.Generator().manual_seed(2)).to(dtype)
        inputs = inputs_of(op, special(a_shape, axis, dtype), axis, gradient)
        try:
            self.right(op, form, axis, inputs, rtol=1e-2, atol=1e-5)
        except UnsupportedProblemError as refused:
            pytest.skip(f"a form that takes other problems: {refused}")

    @pytest.mark.parametrize("dtype", INTEGERS, ids=str)
    def test_compiled_minima_of_integers(self, dtype: Any) -> None:
        """Nothing is as low as what lies past a row's end would be, were it taken in."""
        most = 1 if dtype == torch.bool else torch.iinfo(dtype).max
        for form, shape, axis in (("rows", (5, 100), 1), ("split", (2, 20003), 1), ("rows_deferred", (45, 33), 0)):
            x = torch.full(shape, most, dtype=dtype)
            x.select(1 - axis, 1).select(0, 3).fill_(0)
            launch, out = self.bound(operations.OPERATIONS["min"], form, axis, (x,))
            launch()
            assert torch.equal(out, x.long().amin(axis).to(dtype))

    @pytest.mark.sampled(2, "op_name")
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    @pytest.mark.parametrize(("shape", "dim"), [((5, 20001), 1), ((9000, 5), 0)], ids=str)
    @pytest.mark.parametrize("op_name", ["sum", "argmin", "logsumexp", "cross_entropy", "cumsum"])
    def test_what_parts_of_a_row_leave_is_put_together(
        self, op_name: str, shape: tuple[int, int], dim: int, dtype: str
    ) -> None:
        """Also infinities, a NaN and equal minima, in parts that are far apart; and as one program has whole rows."""
        operation = operations.OPERATIONS[op_name]
        inputs = long_rows(operation, shape, dim, dtype)
        args = operation.arguments(inputs, dim)
        for form in ("split", "rows"):
            outs = operation.allocate(args)
            operation.make_launch(Binds(self.language).bind(operation, form), args, outs)()
            operation.expect(args).check(outs)

    @pytest.mark.parametrize("n", [4096, 5000, 20000], ids=str)
    @pytest.mark.parametrize("op_name", HELD)
    def test_rows_are_held_or_read_again(self, op_name: str, n: int) -> None:
        operation = operations.OPERATIONS[op_name]
        args = operation.arguments(operation.sample((3, n), "bfloat16", 1, generator=torch.Generator()), 1)
        outs = operation.allocate(args)
        operation.make_launch(Binds(self.language).bind(operation, "rows"), args, outs)()
        operation.expect(args).check(outs)
