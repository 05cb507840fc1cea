"""Accuracy of any operation: results of either sign, several inputs and outputs, what overflows, axes with names."""

import math
from collections.abc import Callable

import pytest
import torch
from made_up import RIGHT, normed, picks

from kernelzoo import operations
from kernelzoo.check import accuracy, accuracy_values
from kernelzoo.check.accuracy import Tally, Truth
from kernelzoo.check.accuracy_values import Problem
from kernelzoo.launch import Bind, Launch, void

CPU = torch.device("cpu")
HAND = Problem("by hand", 0, -1, 1, 0)
Tensor = torch.Tensor


pytestmark = pytest.mark.usefixtures("declared", "one_thread")


def tally(x: Tensor, weight: Tensor, result: Tensor) -> Tally:
    """The errors of one result for one row of own_norm, eps being 0."""
    operation = operations.OPERATIONS["own_norm"]
    counted = Tally("by/own_norm/hand", "own_norm", operations.dtype_name(x.dtype))
    args = operation.arguments((x.unsqueeze(0), weight), scalars={"eps": 0.0})
    Truth(operation, args, HAND).count(counted, (result.unsqueeze(0),))
    return counted


def test_a_ulp_is_the_same_below_zero() -> None:
    x, weight = torch.tensor([1.0, -1.0]), torch.tensor([1.5, 1.5])  # results 1.5 and -1.5, whose ulp is 2^-23
    assert tally(x, weight, torch.tensor([1.5, -1.5])).worst == 0
    counted = tally(x, weight, torch.tensor([1.5, -1.5 - 3 * 2.0**-23]))
    assert (counted.worst, counted.normal, counted.worst_subnormal) == (3, 2, 0)
    assert tally(x, weight, torch.tensor([1.5, 1.5])).wrong == 1
    assert tally(x, weight, torch.tensor([1.5, -1.5 * 1.001])).wrong == 1


def test_what_overflows_is_infinite_or_wrong() -> None:
    """And has no error in ulp."""
    x, weight = torch.tensor([1.0, -1.0, 1.0, 3.0]), torch.tensor([1.0, 3e38, 1.0, 3e38])
    right = normed(x.view(1, 4, 1), weight, 0.0).view(4)
    assert right[3] > torch.finfo(torch.float32).max
    counted = tally(x, weight, right.float())
    assert counted.wrong == 0 and counted.normal == 3 and counted.worst <= 0.5
    for bad in (-math.inf, math.nan, 3e38):
        assert tally(x, weight, torch.cat((right[:3].float(), torch.tensor([bad])))).wrong == 1
    assert tally(x, torch.tensor([1.0, 1.0, math.inf, 1.0]), torch.tensor([0.5, -0.5, math.inf, 1.5])).wrong > 0


def test_a_right_implementation_is_half_a_ulp_off(entrant: Callable[[str, Bind], str]) -> None:
    def one_more(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
        def launch() -> None:
            out.copy_(normed(x, weight, eps))
            out.copy_(torch.nextafter(out, torch.full_like(out, -math.inf)))

        return launch

    def without_eps(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
        return lambda: void(out.copy_(normed(x, weight, 0.0)))

    for dtype in ("bfloat16", "float32"):
        (row,) = accuracy.measure("own_norm", dtype, [entrant("own_norm", RIGHT["own_norm"])], 40_000, 1, CPU)
        assert 0.49 < row["worst_ulp"] <= 0.5001 and 0.1 < row["mean_ulp"] < 0.3, row
        assert (row["wrong"], row["same_bits"], row["refused"]) == (0, True, 0) and row["values"] > 20_000
    (row,) = accuracy.measure("own_norm", "float32", [entrant("own_norm", one_more)], 40_000, 1, CPU)
    assert 1.4 < row["worst_ulp"] <= 2.5001 and 0.9 < row["mean_ulp"] < 1.1 and row["wrong"] == 0
    (row,) = accuracy.measure("own_norm", "float32", [entrant("own_norm", without_eps)], 40_000, 1, CPU)
    assert row["wrong"] > 0


def test_a_dtype_without_an_exact_result_is_left_out(entrant: Callable[[str, Bind], str]) -> None:
    assert "float64" not in accuracy.dtypes("own_norm") and "float64" in accuracy.dtypes("softmax")
    assert accuracy.dtypes("min") == operations.OPERATIONS["min"].dtypes
    assert accuracy.measure("own_norm", "float64", ["entrant/own_norm/only"], 1000, 1, CPU) == []
    assert (accuracy.torch_id("softmax"), accuracy.torch_id("min"), accuracy.torch_id("own_norm")) == (
        "torch.softmax",
        "",
        "",
    )


def test_axes_with_names(entrant: Callable[[str, Bind], str]) -> None:
    def all_known(x: Tensor, index: Tensor, out: Tensor, known: Tensor) -> Launch:
        def launch() -> None:
            picks(x, index, out, known)()
            known.fill_(True)

        return launch

    (row,) = accuracy.measure("row_sum", "float32", [entrant("row_sum", RIGHT["row_sum"])], 100_000, 1, CPU)
    assert row["worst_ulp"] <= 0.5001 and row["wrong"] == 0 and row["problems"] >= 6
    assert row["worst_family"] == accuracy_values.SAMPLE
    (row,) = accuracy.measure("pick", "int32", [entrant("pick", picks)], 100_000, 1, CPU)
    assert (row["wrong"], row["same_bits"], row["worst_ulp"]) == (0, True, None) and row["values"] > 10_000
    (row,) = accuracy.measure("pick", "float32", [entrant("pick", all_known)], 100_000, 1, CPU)
    assert row["wrong"] > 100
