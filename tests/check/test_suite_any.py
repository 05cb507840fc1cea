"""The conformance class and the Hypothesis strategy, for any operation: right kernels pass, wrong ones do not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from made_up import DTYPES, RIGHT
from registered import forget, forget_operation

import kernelzoo
from kernelzoo import operations
from kernelzoo.check import accuracy, fuzz, verifying
from kernelzoo.check.fuzz.running import run
from kernelzoo.check.weak import accepted_wrong_results
from kernelzoo.errors import ContractError
from kernelzoo.launch import Bind, Launch, void
from kernelzoo.registry import Implementation
from kernelzoo.testing import Conformance, tensors

Tensor = torch.Tensor
Enter = Callable[[str, Bind], Implementation]

pytestmark = pytest.mark.usefixtures("declared")


class Suite(Conformance):
    @staticmethod
    def device(backend: str) -> str:
        return "cpu"


def into_contiguous(bind: Bind) -> Bind:
    """Takes the last output for contiguous."""

    def bound(*tensors: Tensor, **scalars: Any) -> Launch:
        out = tensors[-1]
        room = out.untyped_storage().nbytes() // out.element_size()
        dense = out.as_strided((min(out.numel(), room),), (1,), 0)
        own = torch.empty(out.shape, dtype=out.dtype)
        launch = bind(*tensors[:-1], own, **scalars)

        def both() -> None:
            launch()
            dense.copy_(own.view(-1)[: dense.numel()])

        return both

    return bound


@pytest.mark.parametrize("op", RIGHT)
def test_takes_a_case(op: str, enter: Enter) -> None:
    Suite().test_takes_a_case(enter(op, RIGHT[op]))

    def refuses(*tensors: Tensor, **scalars: float) -> Launch:
        raise kernelzoo.UnsupportedProblemError(f"entrant/{op}/only", "takes nothing")

    with pytest.raises(pytest.fail.Exception, match="takes nothing"):
        Suite().test_takes_a_case(enter(op, refuses))


@pytest.mark.parametrize("op", RIGHT)
def test_strided_out(op: str, enter: Enter) -> None:
    Suite().test_strided_out(enter(op, RIGHT[op]))
    with pytest.raises(AssertionError):
        Suite().test_strided_out(enter(op, into_contiguous(RIGHT[op])))


@pytest.mark.parametrize("op", RIGHT)
def test_wrong_device(op: str, enter: Enter) -> None:
    Suite().test_wrong_device(enter(op, RIGHT[op]))


@pytest.mark.parametrize("op", DTYPES)
def test_tensors_are_inputs(op: str) -> None:
    """A tuple of them where there are several; each call of them is legal."""
    operation = operations.OPERATIONS[op]

    @settings(max_examples=60, deadline=None, database=None)
    @given(tensors(op))
    def legal(drawn: Any) -> None:
        inputs = drawn if len(operation.inputs) > 1 else (drawn,)
        args = operation.arguments(inputs)
        outs = operation.allocate(args)
        operation.make_launch(RIGHT[op], args, outs)()
        operation.expect(args).check(outs)

    legal()


CPU = torch.device("cpu")


# Outputs without an axis: one element of all elements, for named axes and by rows


@pytest.fixture(params=["M N", "outer n inner"])
def total(request: pytest.FixtureRequest) -> Iterator[Implementation]:
    """The sum of all elements, and a right kernel of it."""
    name = "total" if request.param == "M N" else "total_by_rows"  # torch forgets no operation
    body = {
        "x": kernelzoo.Input(request.param),
        "out": kernelzoo.Output(""),
        "domain": {"x": lambda info, n: 1e30},
        "takes_empty": True,
        "reference": lambda x: x.sum(),
        "error": lambda x, unit: x.abs().sum() * unit * 64,
    }
    kernelzoo.operation(name=name, dtypes=("float32", "float64"))(type(name, (), body))

    def bind(x: Tensor, out: Tensor) -> Launch:
        return lambda: void(out.copy_(x.double().sum()))

    kernelzoo.register("own", name, "only")(bind)
    yield kernelzoo.implementation(f"own/{name}/only")
    forget_operation(name)
    forget("own")


def test_verify_passes_it(total: Implementation) -> None:
    checks = [check for check in verifying.checks_of(total, CPU, whole=True) if not check.too_large]
    found = verifying.verify(total, checks, CPU, whole=True, progress=lambda name, known: None)
    assert found.findings == [] and found.passed == len(checks) > 50


def test_all_rows_count(total: Implementation) -> None:
    """Of a tensor that a reference reads in parts, too."""
    x = torch.ones(1100, 1000)
    total.operation.assert_close(torch.tensor(1.1e6), x)
    with pytest.raises(ContractError, match="1 of 1 elements wrong"):
        total.operation.assert_close(torch.tensor(1.0e6), x)


def test_bounds_are_tried(total: Implementation) -> None:
    assert accepted_wrong_results(total.operation) == ()


def test_fuzzing_passes_it(total: Implementation) -> None:
    cases = [case for case in fuzz.draw(total.op, 300, 3, 2**9) if not case.has_far_rows]
    found = run(total, cases, CPU)
    assert found.wrong == [] and found.right + found.faults == len(cases)


def test_the_suite_passes_it(total: Implementation) -> None:
    Suite().test_takes_a_case(total)
    Suite().test_strided_out(total)
    Suite().test_wrong_device(total)


def test_errors_are_counted(total: Implementation) -> None:
    (row,) = accuracy.measure(total.op, "float32", [total.id], 2**12, 0, CPU)
    assert row["wrong"] == 0 and row["worst_ulp"] <= 0.5


def test_no_shard_of_rows_gives_it(total: Implementation) -> None:
    assert not total.operation.separable
    assert operations.OPERATIONS["softmax"].separable and operations.OPERATIONS["min"].separable
