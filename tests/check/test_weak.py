"""Bounds that can tell wrong results from right ones, and bounds that can't."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from registered import forget_operation

import kernelzoo
from kernelzoo.check.weak import WRONG, accepted_wrong_results
from kernelzoo.operations import BUILT_IN, OPERATIONS


@pytest.mark.parametrize("op", BUILT_IN)
def test_ours_accept_nothing_wrong(op: str) -> None:
    assert accepted_wrong_results(OPERATIONS[op]) == ()


def declared(error: Callable[..., Any], axes: str = "outer n inner") -> kernelzoo.operations.Operation:
    body = {"x": kernelzoo.Input(axes), "out": kernelzoo.Output(axes), "reference": lambda x: x - 1, "error": error}
    kernelzoo.operation(name="shifted")(type("shifted", (), body))
    return OPERATIONS["shifted"]


@pytest.mark.parametrize("axes", ["outer n inner", "M 16 N", "M N%3==0,<=64"])
@pytest.mark.parametrize(
    ("error", "accepted"),
    [
        (lambda ref, unit: ref.abs() * 4 * unit, ()),
        (lambda ref: ref.abs() / 50, ("results that are 1 % too large",)),
        (lambda ref: torch.full_like(ref, 1e6), tuple(WRONG)),
    ],
    ids=["narrow", "two per cent", "wide"],
)
def test_a_user_s_are_tried(error: Callable[..., Any], accepted: tuple[str, ...], axes: str) -> None:
    try:
        assert accepted_wrong_results(declared(error, axes)) == accepted
    finally:
        forget_operation("shifted")
