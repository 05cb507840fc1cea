"""Fuzzing of any operation: several inputs and outputs, scalars, axes with names; what is wrong is found and shrunk."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from made_up import DTYPES, RIGHT, normed, picks

from kernelzoo import operations
from kernelzoo.check import fuzz
from kernelzoo.check.fuzz import Case, Companion, Layout, contiguous, running, values
from kernelzoo.check.fuzz.placing import inputs
from kernelzoo.launch import Bind, Launch, void
from kernelzoo.registry import Implementation

CPU = torch.device("cpu")
Tensor = torch.Tensor

Enter = Callable[[str, Bind], Implementation]

pytestmark = [pytest.mark.usefixtures("declared"), pytest.mark.xdist_group("fuzz any")]  # cases are drawn once


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Case]]:
    return {op: [case for case in fuzz.draw(op, 480, 7, 2**9) if not case.far] for op in DTYPES}


@pytest.mark.parametrize("op", RIGHT)
def test_a_right_kernel_passes(op: str, enter: Enter, drawn: dict[str, list[Case]]) -> None:
    found = running.run(enter(op, RIGHT[op]), drawn[op], CPU)
    assert [(str(drawn[op][number]), words) for number, words in found.wrong] == []
    assert found.right + found.faults == len(drawn[op]) and found.right > 400 and found.faults > 10


# Wrong ones


def ignores_eps(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    return lambda: void(out.copy_(normed(x, weight, 1e-6)))


def takes_weight_for_contiguous(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    dense = weight.as_strided(weight.shape, (1,), weight.storage_offset())
    return lambda: void(out.copy_(normed(x, dense, eps)))


def takes_weight_for_aligned(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    start = weight.storage_offset() - weight.data_ptr() % 16 // weight.element_size()
    dense = weight.as_strided(weight.shape, weight.stride(), start)
    return lambda: void(out.copy_(normed(x, dense, eps)))


def skips_the_last_row(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    return lambda: void(out[: x.size(0) - 1].copy_(normed(x, weight, eps)[:-1]))


def changes_weight(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    def launch() -> None:
        out.copy_(normed(x, weight, eps))
        weight.add_(1)

    return launch


def writes_past_the_end(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    last = sum((size - 1) * stride for size, stride in zip(out.shape, out.stride(), strict=True))
    past = out.as_strided((1,), (1,), out.storage_offset() + last + 1) if _room(out, last + 1) else None

    def launch() -> None:
        out.copy_(normed(x, weight, eps))
        if past is not None:
            past.zero_()

    return launch


def _room(out: Tensor, place: int) -> bool:
    return out.untyped_storage().nbytes() // out.element_size() > out.storage_offset() + place


def overwrites_x_too_early(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    """Right, unless out is x: it then reads what it has written."""

    def launch() -> None:
        out.copy_(x)
        out.mul_(weight[:, None]).copy_(normed(x, weight, eps))

    return launch


def takes_index_for_contiguous(x: Tensor, index: Tensor, out: Tensor, known: Tensor) -> Launch:
    dense = index.as_strided(index.shape, contiguous(index.shape), index.storage_offset())
    return picks(x, dense.clamp(-1, x.size(1) - 1), out, known)


def forgets_the_second_output(x: Tensor, index: Tensor, out: Tensor, known: Tensor) -> Launch:
    return lambda: void(out.copy_(x.gather(1, index.clamp(min=0)).where(index >= 0, 0)))


def takes_no_unknown(x: Tensor, index: Tensor, out: Tensor, known: Tensor) -> Launch:
    def launch() -> None:
        known.fill_(True)
        out.copy_(x.gather(1, index.clamp(min=0)))

    return launch


def sums_whole_blocks(x: Tensor, out: Tensor) -> Launch:
    whole = max(1, x.size(1) // 8 * 8)
    return lambda: void(out.copy_(x[:, :whole].double().sum(1)))


WRONG: tuple[tuple[str, Bind, str], ...] = (
    ("own_norm", ignores_eps, "wrong elements"),
    ("own_norm", takes_weight_for_contiguous, "wrong elements"),
    ("own_norm", takes_weight_for_aligned, "wrong elements"),
    ("own_norm", skips_the_last_row, "wrong elements"),
    ("own_norm", changes_weight, "weight, or bytes around it, have changed"),
    ("own_norm", writes_past_the_end, "bytes around out"),
    ("own_norm", overwrites_x_too_early, "with x as out"),
    ("pick", takes_index_for_contiguous, "pick out: wrong elements"),
    ("pick", forgets_the_second_output, "pick known: wrong elements"),
    ("pick", takes_no_unknown, "pick known: wrong elements"),
    ("row_sum", sums_whole_blocks, "row_sum: wrong elements"),
)


@pytest.mark.parametrize(("op", "bind", "words"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_kernel_is_found(op: str, bind: Bind, words: str, enter: Enter, drawn: dict[str, list[Case]]) -> None:
    wrong = list[str]()
    for start in range(0, len(drawn[op]), 40):
        wrong += [told for _, told in running.run(enter(op, bind), drawn[op][start : start + 40], CPU).wrong]
        if any(words in told for told in wrong):
            return
    raise AssertionError(wrong[:3])


def shrunk(implementation: Implementation, cases: list[Case]) -> Case:
    """The first failing case made simple."""
    op = implementation.op

    def fails(case: Case) -> bool:
        return bool(running.run(implementation, [case], CPU).wrong)

    simple = fuzz.reduce(op, next(filter(fails, cases)), fails, 400)
    assert fails(simple) and fuzz.parse(str(simple), op) == simple
    return simple


def test_a_failure_becomes_simple(enter: Enter, drawn: dict[str, list[Case]]) -> None:
    """Down to what makes it fail, and nothing else."""
    simple = shrunk(enter("own_norm", ignores_eps), drawn["own_norm"])
    assert simple == Case("float32", simple.shape, Layout(contiguous(simple.shape)), scalars=(("eps", 0.5),))
    assert simple.elements == 1

    simple = shrunk(enter("own_norm", takes_weight_for_contiguous), drawn["own_norm"])
    assert simple.elements == 2 and simple.outs == () and simple.scalars == () and simple.specials == ()
    assert simple.x == Layout(contiguous(simple.shape))
    (weight,) = simple.companions
    assert weight.layout is not None and weight.layout.strides != (1,)
    assert replace(weight, layout=None) == Companion("weight")

    simple = shrunk(enter("pick", takes_no_unknown), drawn["pick"])
    assert simple.elements * dict(simple.sizes)["N"] <= 8
    assert (simple.outs, simple.companions, simple.x) == ((), (), Layout(contiguous(simple.shape)))

    simple = shrunk(enter("row_sum", sums_whole_blocks), drawn["row_sum"])
    assert simple.shape[0] == 1 and simple.shape[1] in (2, 9) and simple.values == "normal"


# Cases


@pytest.mark.parametrize("op", RIGHT)
def test_cases_are_many_kinds_and_legal(op: str) -> None:
    cases = fuzz.draw(op, 800, 3, 2**12)
    operation = operations.OPERATIONS[op]
    assert len({str(case) for case in cases}) == 800 and cases == fuzz.draw(op, 800, 3, 2**12)
    for case in cases:
        assert fuzz.parse(str(case), op) == case
    several: dict[str, Callable[[Case], object]] = {
        "outs": lambda case: case.outs,
        "values": lambda case: case.values != "normal",
        "empty": lambda case: not math.prod(case.out_shapes(op)[0]),
    }
    if op != "row_sum":
        several["other strides"] = lambda case: any(o.layout and sum(o.layout.strides) > 1 for o in case.companions)
        several["other offset"] = lambda case: any(o.layout and o.layout.offset for o in case.companions)
    if op == "own_norm":
        several["other values"] = lambda case: any(other.values for other in case.companions)
        several["other specials"] = lambda case: any(other.specials for other in case.companions)
        several["eps"] = lambda case: case.scalars == (("eps", 0.5),)
    counts = Counter(name for case in cases for name, holds in several.items() if holds(case))
    assert {name for name in several if not counts[name]} == set(), counts
    assert {case.fault for case in cases} - {""} <= set(fuzz.faults(op, "float32"))
    assert {case.dtype for case in cases} == set(operation.dtypes)


def test_values_are_within_what_the_operation_says() -> None:
    generator = torch.Generator()
    operation = operations.OPERATIONS["own_norm"]
    for case in [case for case in fuzz.draw("own_norm", 200, 3, 2**9) if not case.far and case.elements]:
        (_, x), _ = inputs(operation, case, generator)
        finite = x.double().where(x.isfinite(), 0).resolve_neg()
        assert finite.square().mean(case.axes or None).max() < torch.finfo(torch.float32).max, case
    unknown = 0
    for case in fuzz.draw("pick", 200, 3, 2**9):
        (_, x), (_, index) = inputs(operations.OPERATIONS["pick"], case, generator)
        assert not index.numel() or -1 <= index.min() <= index.max() < max(1, x.size(1))
        unknown += int((index == -1).sum())
    assert unknown


def test_json_has_what_is_not_at_its_default() -> None:
    weight = Companion("weight", "", Layout((2,), 3), "wide", (("nan", 0),), True)
    case = Case("float32", (3, 4), Layout((4, 1)), companions=(weight,), scalars=(("eps", 0.5),))
    assert str(case) == (
        '{"dtype":"float32","shape":[3,4],"dim":-1,"strides":[4,1],"values":"normal","seed":0,'
        '"weight":{"strides":[2],"offset":3,"values":"wide","specials":[["nan",0]],"negated":true},'
        '"scalars":{"eps":0.5}}'
    )
    assert fuzz.parse(str(case), "own_norm") == case
    text = '{"dtype":"float32","shape":[2,3],"sizes":{"N":4},"out":[[[4,1],0],[[8,2],1]]}'
    case = fuzz.parse(text, "pick")
    assert case.outs == (Layout((4, 1)), Layout((8, 2), 1)) and case.dim is None
    assert fuzz.parse(str(case), "pick") == case


@pytest.mark.parametrize(
    ("op", "text", "words"),
    [
        ("softmax", "{", "JSONDecodeError"),
        ("softmax", '{"dtype":"float32"}', "KeyError"),
        ("softmax", '{"dtype":"float31","shape":[2]}', "no softmax dtype 'float31'; known: float16"),
        ("softmax", '{"dtype":"float32","shape":[2],"values":"odd"}', "no values 'odd'; known: normal"),
        ("softmax", '{"dtype":"float32","shape":[2],"specials":[["odd",0]]}', "no special value 'odd'; known: nan"),
        ("softmax", '{"dtype":"float32","shape":[2],"fault":"odd"}', "no fault 'odd'; known: an axis out"),
        ("softmax", '{"dtype":"float32","shape":[2],"strides":[1,1]}', "as many strides as axes"),
        ("softmax", '{"dtype":"float32","shape":[2],"out":[[1,1],0]}', "must have 1 strides"),
        ("softmax", '{"dtype":"float32","shape":[2],"size":1}', "a case has no size; it has dim"),
        ("own_norm", '{"dtype":"float32","shape":[2],"weight":{"strides":[1,1]}}', "as many strides as axes"),
        ("own_norm", '{"dtype":"float32","shape":[2],"weight":{"values":"odd"}}', "no values 'odd'; known: normal"),
        ("own_norm", '{"dtype":"float32","shape":[2],"weight":{"size":1}}', "weight has no size; it has dtype"),
        ("own_norm", '{"dtype":"float32","shape":[2],"weight":{"dtype":"int8"}}', "no dtype 'int8'; known: float32"),
        ("own_norm", '{"dtype":"float32","shape":[2],"bias":{}}', "a case has no bias; it has dim"),
        ("pick", '{"dtype":"float32","shape":[2,3]}', "KeyError: 'sizes'"),
        ("pick", '{"dtype":"float32","shape":[2,3],"sizes":{"N":4},"dim":0}', "a case has no dim"),
        ("pick", '{"dtype":"float32","shape":[2],"sizes":{"N":4}}', "x has the axes M K"),
        ("pick", '{"dtype":"float32","shape":[2,3],"sizes":{"N":4},"out":[[[4,1],0]]}', "must have 2 layouts"),
        ("pick", '{"dtype":"float32","shape":[2,3],"sizes":{"N":4},"fault":"no axis"}', "no fault 'no axis'"),
        ("row_sum", '{"dtype":"float32","shape":[2,3],"sizes":{}}', "a case has no sizes"),
    ],
)
def test_what_is_no_case_is_refused(op: str, text: str, words: str) -> None:
    with pytest.raises(fuzz.CaseError, match=re.escape(words)):
        fuzz.parse(text, op)


@pytest.mark.parametrize("op", RIGHT)
def test_every_fault_raises_its_error(op: str, enter: Enter) -> None:
    """Where an output may be x, out within x is a fault all the same."""
    case = {
        "own_norm": Case("float32", (3, 4), Layout((4, 1))),
        "pick": Case("float32", (3, 4), Layout((4, 1)), None, sizes=(("N", 2),)),
        "row_sum": Case("float32", (3, 4), Layout((4, 1)), None),
    }[op]
    names = fuzz.faults(op, "float32")
    assert ("another shape of an input" in names) == (op != "row_sum") and ("no axis" in names) == (op == "own_norm")
    assert ("outs upon each other" in names) == (op == "pick")
    shapes = [case, *([replace(case, shape=(1,), x=Layout((1,)))] if op == "own_norm" else [])]
    cases = [replace(one, fault=fault, seed=seed) for one in shapes for fault in names for seed in range(4)]
    found = running.run(enter(op, RIGHT[op]), cases, CPU)
    assert [(str(cases[number]), words) for number, words in found.wrong] == []
    assert found.faults == len(cases)


def test_a_fault_beside_a_negated_input_raises_its_error(enter: Enter) -> None:
    case = Case(
        "float16", (), Layout((), 0), -1, fault="an axis out of range", companions=(Companion("weight", negated=True),)
    )
    found = running.run(enter("own_norm", RIGHT["own_norm"]), [case], CPU)
    assert (found.wrong, found.faults) == ([], 1)


def test_each_input_has_values_of_its_own() -> None:
    case = Case("float32", (8,), Layout((1,)), seed=5)
    (_, x), (_, weight) = inputs(operations.OPERATIONS["own_norm"], case, torch.Generator())
    assert not torch.equal(x, weight)
    assert torch.equal(x, values.draw("normal", (8,), "float32", torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("op", ["own_norm", "pick"])
def test_hypothesis_makes_up_cases_too(op: str, enter: Enter) -> None:
    implementation = enter(op, RIGHT[op])

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=fuzz.strategy(op, 2**7))
    def passes(case: Case) -> None:
        assert fuzz.parse(str(case), op) == case
        if not case.far:
            found = running.run(implementation, [case], CPU)
            assert (found.wrong, found.right + found.faults) == ([], 1)

    passes()
