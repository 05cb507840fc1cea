"""Accuracy: ulps by hand, an exact value that is exact, and wrong implementations that are as wrong as they are."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from made_up import RIGHT, normed, picks

from kernelzoo import operations
from kernelzoo.check import accuracy, accuracy_values
from kernelzoo.check.accuracy import RightResults, Tally
from kernelzoo.check.accuracy_values import Problem
from kernelzoo.check.fuzz import values as fuzz_values
from kernelzoo.launch import Bind, Launch, void
from kernelzoo.operations.exact import sum_row_pairs

CPU = torch.device("cpu")
SOFTMAX = operations.OPERATIONS["softmax"]
HAND = Problem("by hand", 0, -1, 1, 0)
Tensor = torch.Tensor

pytestmark = pytest.mark.usefixtures("declared", "one_thread")


def tally(x: torch.Tensor, result: torch.Tensor) -> Tally:
    """The errors of one result for one row, which must be normal numbers all, or none of them."""
    counted = Tally("by/softmax/hand", "softmax", operations.dtype_name(x.dtype))
    accuracy.UlpReference(SOFTMAX, SOFTMAX.arguments((x.unsqueeze(0),)), HAND).count_errors(
        counted, result.unsqueeze(0)
    )
    return counted


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        # Of two equal elements each is 1/2, whose ulp is 2^-1 times that of 1.
        (torch.float16, 2.0**-11),
        (torch.bfloat16, 2.0**-8),
        (torch.float32, 2.0**-24),
        (torch.float64, 2.0**-53),
    ],
    ids=str,
)
def test_a_ulp_is_that_of_the_output(dtype: torch.dtype, unit: float) -> None:
    x = torch.zeros(2, dtype=dtype)
    assert tally(x, torch.full((2,), 0.5, dtype=dtype)).worst == 0
    for off in (1, 3):
        counted = tally(x, torch.tensor([0.5, 0.5 + off * unit], dtype=dtype))
        assert (counted.worst, counted.total, counted.normal) == (off, off, 2)
    # Below 1/2 numbers lie twice as close, and the ulp is still that of the exact value.
    assert tally(x, torch.tensor([0.5, 0.5 - unit / 2], dtype=dtype)).worst == 0.5


def test_a_ulp_of_what_is_subnormal_or_zero_is_the_smallest_number() -> None:
    x = torch.tensor([0.0, -95.0, -200.0])  # e^-95 is 46417 times 2^-149; e^-200 is nothing
    exact = math.exp(-95)
    counted = tally(x, torch.tensor([1.0, exact, 0.0]))
    assert counted.worst == 0 and counted.worst_subnormal <= 0.5
    assert tally(x, torch.tensor([1.0, 0.0, 0.0])).worst_subnormal == pytest.approx(exact * 2.0**149)
    assert tally(x, torch.tensor([1.0, exact, 2.0**-149])).worst_subnormal == pytest.approx(1)
    assert tally(x, torch.tensor([1.0, 0.0, 0.0])).wrong == 0  # the contract lets it flush to zero
    x = torch.tensor([0.0, -740.0], dtype=torch.float64)
    units = math.exp(-740 + 1074 * math.log(2))
    exact = math.exp(-740)  # rounded to 85 of them
    assert tally(x, torch.tensor([1.0, exact], dtype=torch.float64)).worst_subnormal <= 0.5
    assert tally(x, torch.tensor([1.0, 0.0], dtype=torch.float64)).worst_subnormal == pytest.approx(units)


def test_what_is_not_a_number_is_infinitely_far_off() -> None:
    x = torch.tensor([1.0, 1.0])
    for bad in (math.nan, math.inf, -math.inf):
        counted = tally(x, torch.tensor([0.5, bad]))
        assert (counted.worst, counted.wrong) == (math.inf, 1)
    for x in (torch.tensor([1.0, math.inf]), torch.tensor([-math.inf, -math.inf]), torch.tensor([0.0, math.nan])):
        for wide in (x, x.double()):
            assert tally(wide, torch.full_like(wide, math.nan)).wrong == 0
            assert tally(wide, torch.full_like(wide, 0.5)).wrong == 2
    x = torch.tensor([0.0, -math.inf])
    for wide in (x, x.double()):
        assert tally(wide, torch.tensor([1.0, 0.0], dtype=wide.dtype)).worst == 0
        assert tally(wide, torch.tensor([1.0, 1e-30], dtype=wide.dtype)).worst_subnormal > 1e6


def test_the_exact_value_is_exact() -> None:
    """The pairs, against sums of 60 decimal digits."""
    from decimal import Decimal, localcontext

    generator = torch.Generator().manual_seed(0)
    for name, family in accuracy_values.FAMILIES.items():
        fill = fuzz_values.TensorFiller((2, 37), torch.float64, generator)
        x = family(fill.normal(double=True), fill)
        high, low, scale = SOFTMAX.exact(SOFTMAX.arguments((x.contiguous(),)))
        assert low is not None and scale is not None
        for row in range(2):
            with localcontext() as context:
                context.prec = 60
                terms = [(Decimal(v) - Decimal(x[row].max().item())).exp() for v in x[row].tolist()]
                total = sum(terms)
                pairs = zip(*(part[row].flatten().tolist() for part in (high, low, scale)), strict=True)
                for term, (a, b, s) in zip(terms, pairs, strict=True):
                    told = (Decimal(a) + Decimal(b)) * Decimal(2) ** int(s)
                    assert abs(told - term / total) <= term / total * Decimal(2) ** -60 + Decimal(2) ** -1140, name


def test_the_sum_of_pairs_is_exact() -> None:
    values = torch.randn(3, 1001, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).exp_()
    values[:, ::7] *= 2.0**-60
    high, low = sum_row_pairs(values, torch.zeros_like(values))
    for row in range(3):
        exact = sum(map(Fraction, values[row].tolist()), Fraction())
        assert abs(Fraction(high[row].item()) + Fraction(low[row].item()) - exact) <= exact / 2**100


def reference(x: torch.Tensor) -> torch.Tensor:
    """The right softmax along axis 1, in float64."""
    (right,) = SOFTMAX.reference(SOFTMAX.arguments((x,), 1))
    return right


def rounded(x: torch.Tensor) -> torch.Tensor:
    """The right softmax along axis 1, rounded once."""
    return reference(x).to(x.dtype)


def one_more(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One ulp more than is right."""

    def launch() -> None:
        out.copy_(torch.nextafter(right := rounded(x), torch.full_like(right, math.inf)))

    return launch


def rounds_twice(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """To bfloat16 by way of what has one bit more."""

    def launch() -> None:
        right = reference(x)
        unit = torch.ldexp(torch.ones_like(right), torch.frexp(right).exponent - 9)
        out.copy_((right / unit).round_().mul_(unit).to(x.dtype))

    return launch


def right(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(rounded(x)))


def test_a_right_implementation_is_half_a_ulp_off(entrant: Callable[[str, Bind], str]) -> None:
    id = entrant("softmax", right)
    for dtype in ("float16", "bfloat16", "float32"):
        ours, torchs = accuracy.measure("softmax", dtype, [id, accuracy.torch_id("softmax")], 40_000, 1, CPU)
        assert 0.49 < ours["worst_ulp"] <= 0.5001, dtype
        assert 0.1 < ours["mean_ulp"] < 0.3 and 0.49 < ours["p9999_ulp"] < 0.54
        assert ours["worst_subnormal_ulp"] <= 0.5001
        assert (ours["wrong"], ours["same_bits"], ours["refused"]) == (0, True, 0)
        assert ours["values"] == torchs["values"] > 20_000
        assert ours["allowed_ulp_there"] >= 0.5
        assert torchs["worst_ulp"] > ours["worst_ulp"]


def test_a_ulp_more_is_a_ulp_more(entrant: Callable[[str, Bind], str]) -> None:
    (row,) = accuracy.measure("softmax", "float32", [entrant("softmax", one_more)], 40_000, 1, CPU)
    # One from half a ulp; two where that is a power of two, and the exact value lies below it.
    assert 1.9 < row["worst_ulp"] <= 2.5001 and 0.9 < row["mean_ulp"] < 1.1
    assert row["wrong"] == 0  # float32 is allowed more
    (row,) = accuracy.measure("softmax", "float64", [entrant("softmax", right)], 50_000, 1, CPU)
    assert row["worst_ulp"] > 2  # one rounding of float64's own sum and exponential is not enough for it


def test_rounding_twice_is_found(entrant: Callable[[str, Bind], str]) -> None:
    (row,) = accuracy.measure("softmax", "bfloat16", [entrant("softmax", rounds_twice)], 60_000, 1, CPU)
    assert 0.6 < row["worst_ulp"] <= 0.7501
    assert row["wrong"] > 0


def test_bits_that_differ_are_found(entrant: Callable[[str, Bind], str]) -> None:
    def differs(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            right = rounded(x)
            up = torch.nextafter(right, torch.full_like(right, math.inf))
            out.copy_(torch.where(torch.rand(x.shape) < 0.5, right, up))

        return launch

    (row,) = accuracy.measure("softmax", "float32", [entrant("softmax", differs)], 50_000, 1, CPU)
    assert not row["same_bits"] and row["wrong"] == 0


def test_a_minimum_is_exact_or_wrong(entrant: Callable[[str, Bind], str]) -> None:
    def minimum(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(out.copy_(x.amin(1)))

    def through_float16(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(out.copy_(x.half().amin(1)))

    def drops_nan(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(out.copy_(torch.where(x != x, math.inf, x).amin(1)))

    for dtype in operations.OPERATIONS["min"].dtypes:
        (row,) = accuracy.measure("min", dtype, [entrant("min", minimum)], 50_000, 1, CPU)
        assert (row["wrong"], row["same_bits"]) == (0, True) and row["values"] > 20_000, dtype
        assert row["worst_ulp"] is None
    for wrong in (through_float16, drops_nan):
        (row,) = accuracy.measure("min", "float32", [entrant("min", wrong)], 50_000, 1, CPU)
        assert row["wrong"] > 0


@pytest.mark.parametrize("values", [1_000, 100_000, 10**8])
def test_every_family_and_length_has_its_share(values: int) -> None:
    plan = list(accuracy_values.problems("softmax", "float32", values, 3))
    assert 0.2 * values <= sum(math.prod(problem.shape) for problem in plan) <= 1.5 * values + 2**20
    assert {problem.family for problem in plan} == set(accuracy_values.FAMILIES)
    assert max(math.prod(problem.shape) for problem in plan) <= 2**22
    assert len({problem.seed for problem in plan}) == len(plan)
    if values == 10**8:
        held = {(problem.family, problem.length, problem.dim) for problem in plan}
        assert len(held) == len(accuracy_values.FAMILIES) * (len(accuracy_values.LENGTHS) + len(accuracy_values.ACROSS))
        assert sum(math.prod(problem.shape) for problem in plan) >= 10**8


# Any operation: results of either sign, several inputs and outputs, what overflows, axes with names


def tally_of_norm(x: Tensor, weight: Tensor, result: Tensor) -> Tally:
    """The errors of one result for one row of own_norm, eps being 0."""
    operation = operations.OPERATIONS["own_norm"]
    counted = Tally("by/own_norm/hand", "own_norm", operations.dtype_name(x.dtype))
    args = operation.arguments((x.unsqueeze(0), weight), scalars={"eps": 0.0})
    RightResults(operation, args, HAND).count_errors(counted, (result.unsqueeze(0),))
    return counted


def test_a_ulp_is_the_same_below_zero() -> None:
    x, weight = torch.tensor([1.0, -1.0]), torch.tensor([1.5, 1.5])  # results 1.5 and -1.5, whose ulp is 2^-23
    assert tally_of_norm(x, weight, torch.tensor([1.5, -1.5])).worst == 0
    counted = tally_of_norm(x, weight, torch.tensor([1.5, -1.5 - 3 * 2.0**-23]))
    assert (counted.worst, counted.normal, counted.worst_subnormal) == (3, 2, 0)
    assert tally_of_norm(x, weight, torch.tensor([1.5, 1.5])).wrong == 1
    assert tally_of_norm(x, weight, torch.tensor([1.5, -1.5 * 1.001])).wrong == 1


def test_what_overflows_is_infinite_or_wrong() -> None:
    """And has no error in ulp."""
    x, weight = torch.tensor([1.0, -1.0, 1.0, 3.0]), torch.tensor([1.0, 3e38, 1.0, 3e38])
    right = normed(x.view(1, 4, 1), weight, 0.0).view(4)
    assert right[3] > torch.finfo(torch.float32).max
    counted = tally_of_norm(x, weight, right.float())
    assert counted.wrong == 0 and counted.normal == 3 and counted.worst <= 0.5
    for bad in (-math.inf, math.nan, 3e38):
        assert tally_of_norm(x, weight, torch.cat((right[:3].float(), torch.tensor([bad])))).wrong == 1
    assert tally_of_norm(x, torch.tensor([1.0, 1.0, math.inf, 1.0]), torch.tensor([0.5, -0.5, math.inf, 1.5])).wrong > 0


def test_a_right_norm_is_half_a_ulp_off(entrant: Callable[[str, Bind], str]) -> None:
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
