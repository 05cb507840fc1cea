"""Operations with axes of their own: the sizes, equal elements and scalars that they are tried on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings

import kernelzoo
from kernelzoo import operations
from kernelzoo.check import accuracy_values, fuzz, running
from kernelzoo.check.case import Case
from kernelzoo.check.cases import cases
from kernelzoo.check.plugin import _example_cases
from kernelzoo.cli import options, sizes, verify
from kernelzoo.errors import ContractError, RegistrationError, ShapeError
from kernelzoo.launch import Launch, void
from kernelzoo.operations import Operation
from kernelzoo.operations.limits import Limit, parse_axes
from kernelzoo.testing import tensors

Tensor = torch.Tensor
Declare = Callable[..., Operation]


def wrong_in(bind: Callable[..., Launch]) -> set[str]:
    """The names of the cases that a kernel of ``own`` fails."""
    kernelzoo.register("own", "own", "only")(bind)
    implementation = kernelzoo.implementation("own/own/only")
    return {case.name for case in cases("own") if _fails(implementation, case)}


def _fails(implementation: kernelzoo.registry.Implementation, case: Case) -> bool:
    try:
        running.check(implementation, case, "cpu")
    except ContractError:
        return True
    return False


# Bounds


def top4(x: Tensor, out: Tensor) -> Launch:
    return lambda: void(out.copy_(x.topk(4, 1).values))


@pytest.fixture
def top(declare: Declare) -> Operation:
    return declare(
        ("float32", "int64"),
        x=kernelzoo.Input("M N>=4,<=96"),
        y=kernelzoo.Input("K M%8==0"),
        out=kernelzoo.Output("M 4"),
        reference=lambda x: x.topk(4, 1).values,
    )


def legal(sizes: dict[str, int]) -> bool:
    return 4 <= sizes["N"] <= 96 and sizes["M"] % 8 == 0


@pytest.mark.parametrize("text", ["M N>4", "M-1 N", "N%0==0", "4>=2", "N>=4, <=8", "N>="])
def test_text_that_is_no_axes_is_refused(text: str) -> None:
    for kind in (kernelzoo.Input, kernelzoo.Output):
        with pytest.raises(RegistrationError, match="axes '"):
            kind(text)


def test_bounds_are_read() -> None:
    names, limits = parse_axes("M N>=4,<=1024,%8==0 8")
    assert names == ("M", "N", "8") and dict(limits) == {"N": Limit(4, 1024, (8,))}
    assert str(limits[0][1]) == ">=4,<=1024,%8==0"
    assert [limits[0][1].nearest(size) for size in (0, 4, 8, 9, 1024, 5000)] == [8, 8, 8, 16, 1024, 1024]


def test_bounds_that_leave_nothing_are_refused(declare: Declare) -> None:
    with pytest.raises(RegistrationError, match="axis N: no size is >=4,<=3"):
        declare(x=kernelzoo.Input("N>=4"), out=kernelzoo.Output("N<=3"), reference=lambda x: x)
    with pytest.raises(RegistrationError, match="by rows, an axis has no bounds"):
        declare(x=kernelzoo.Input("outer n>=4 inner"), out=kernelzoo.Output("outer inner"), reference=lambda x: x)


def test_a_call_that_breaks_a_bound_is_refused(top: Operation) -> None:
    kernelzoo.register("own", "own", "only")(lambda x, y, out: top4(x, out))
    call = getattr(kernelzoo.get("own"), "own")  # noqa: B009 - no type checker knows it
    assert call(torch.randn(8, 5), torch.randn(2, 8)).shape == (8, 4)
    with pytest.raises(ShapeError, match="own takes no such sizes: N is 3, must be >=4,<=96; M is 7, must be %8==0"):
        call(torch.randn(7, 3), torch.randn(2, 7))


def test_every_drawn_case_is_within_the_bounds(top: Operation) -> None:
    for case in (*cases("own"), *(case for some in _example_cases(top) for case in some)):
        top.arguments(case.inputs("cpu"))  # raises
    names = [case.name for case in cases("own")]
    assert len(names) == len(set(names)) > 40
    drawn = fuzz.draw("own", 800, 3, 2**9)
    for call in drawn:
        assert fuzz.parse_case(str(call), "own") == call
        named = {**dict(call.sizes), **dict(zip("MN", call.shape, strict=True))}
        assert legal(named) and (call.elements <= 2**9 or named["K"] == 1)
    simple = fuzz.reduce_case("own", drawn[-1], lambda call: fuzz.parse_case(str(call), "own") == call, 400)
    assert simple.elements <= 32, "the least sizes within the bounds"
    assert any(not call.elements for call in drawn)  # 0 rows are a multiple of 8
    with pytest.raises(fuzz.CaseError, match="N is 3, must be >=4"):
        fuzz.parse_case('{"dtype":"float32","shape":[8,3],"sizes":{"K":1}}', "own")
    shapes = [problem.shape for problem in verify._realistic_problems("own/own/only", ())]
    shapes += [problem.shape for problem in accuracy_values.problems("own", "float32", 2**14, 0)]
    assert all(legal(dict(zip("MN", shape, strict=True))) for shape in shapes)
    with pytest.raises(options.OptionError, match="N is 3, must be >=4"):
        sizes.problems(["own"], (), ["float32"], sizes=["M=8,N=3,K=1"])
    with pytest.raises(options.OptionError, match="such as M=1024,N=96,K=1024"):
        sizes.problems(["own"], (), ["float32"])

    @settings(max_examples=30, deadline=None, database=None)
    @given(tensors("own"))
    def calls(inputs: Any) -> None:
        top.arguments(inputs)

    calls()


# Equal elements


def test_equal_elements_are_tried(declare: Declare) -> None:
    """A kernel that finds the last of equal ones is wrong in no other case."""

    def first(x: Tensor) -> Tensor:
        return (x == x.amax(1, keepdim=True)).int().argmax(1)

    declare(x=kernelzoo.Input("M N"), out=kernelzoo.Output("M", dtype="int64"), reference=first)

    def last(x: Tensor, out: Tensor) -> Launch:
        return lambda: void(out.copy_(x.size(1) - 1 - first(x.flip(1))))

    wrong = wrong_in(last)
    assert {name for name in wrong if "ties" in name} == {f"float32-x-ties-{turn}" for turn in (2, 4, 8)}
    assert not [name for name in wrong if name.startswith("float32-M=")]


# Scalars


SCALED: dict[str, Any] = {
    "scale": kernelzoo.Scalar(1.0, also=(0.5, 3.0)),
    "reference": lambda x, scale: x * scale,
    "error": lambda ref, unit, tiny: ref.abs() * unit * 2 + tiny,
}


@pytest.mark.parametrize("axes", ["M N", "outer n inner"])
def test_scalars_vary_in_cases_of_all_kinds(declare: Declare, axes: str) -> None:
    """A kernel that takes the default for granted fails cases of sizes and of special values."""
    declare(x=kernelzoo.Input(axes), out=kernelzoo.Output(axes), **SCALED)
    found = [case for case in cases("own") if case.elements < 2**14]
    names = [case.name for case in found]
    assert len(names) == len(set(names))
    values = {case.scalars for case in found}
    assert values == {(), (("scale", 0.5),), (("scale", 3.0),)}
    for word in ("NaN", "normal") if axes == "M N" else ("special", "stepped", "-3x"):
        assert any(case.scalars for case in found if word in case.name), word
    assert [case.scalars for case in cases("own")][: len(found)] == [case.scalars for case in found]


def test_inputs_are_drawn_for_the_scalars_of_a_case(declare: Declare) -> None:
    body: dict[str, Any] = {
        "x": kernelzoo.Input("M N"),
        "place": kernelzoo.Input("M", dtype="int64", low=0, high="most"),
        "most": kernelzoo.Scalar(1, also=(2,)),
        "out": kernelzoo.Output("M N"),
        "reference": lambda x, place, most: x + place[:, None],
    }
    declare(("int32",), **body)
    highest = {dict(case.scalars).get("most", 1): case.inputs("cpu")[1].max().item() for case in cases("own")}
    assert highest == {1: 0, 2: 1}


def test_a_finding_says_the_scalars(declare: Declare) -> None:
    from kernelzoo.check import verifying

    declare(x=kernelzoo.Input("M N"), out=kernelzoo.Output("M N"), **SCALED)
    kernelzoo.register("own", "own", "only")(lambda x, out, scale: lambda: void(out.copy_(x)))
    implementation, cpu = kernelzoo.implementation("own/own/only"), torch.device("cpu")
    checks = verifying.checks_of(implementation, cpu, whole=True)
    found = verifying.verify(implementation, checks, cpu, whole=True, progress=lambda name, known: None)
    assert found.findings and all(finding.scalars["scale"] in (0.5, 3.0) for finding in found.findings)
    assert found.passed and all(finding.kind == "wrong value" for finding in found.findings)
    assert "scale=" in dict(verify._finding_lines({**vars(found.findings[0]), "repeat": ""}))["input"]


# Inputs of the operation's own


def test_its_own_samples_are_tried(declare: Declare) -> None:
    one = operations.Sample("float32-ones", (2, 3), lambda: torch.ones(2, 3))
    declare(x=kernelzoo.Input("M N"), out=kernelzoo.Output("M N"), samples=lambda: (one,), reference=lambda x: x)
    (case,) = (case for case in cases("own") if case.name == "float32-ones")
    assert torch.equal(case.inputs("cpu")[0], torch.ones(2, 3))
