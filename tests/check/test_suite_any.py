"""The conformance class and the Hypothesis strategy, for any operation: right kernels pass, wrong ones do not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from made_up import DTYPES, RIGHT

import kernelzoo
from kernelzoo import operations
from kernelzoo.launch import Bind, Launch
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
        operation.launch(RIGHT[op], args, outs)()
        operation.expect(args).check(outs)

    legal()
