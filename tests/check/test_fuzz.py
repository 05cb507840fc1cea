"""Fuzzing of any operation: wrong kernels are found, right ones pass; cases are what they say, and become simpler."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import known_bad
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from known_bad import KNOWN_BAD, Bad
from made_up import RIGHT as MADE_UP
from made_up import normed, picks

from kernelzoo import operations
from kernelzoo.check import fuzz
from kernelzoo.check.fuzz import Case, CompanionInput, Layout, dense_strides, running, values
from kernelzoo.check.fuzz.placing import place_inputs
from kernelzoo.launch import Bind, Launch, void
from kernelzoo.operations.memory import overlaps_itself
from kernelzoo.registry import Implementation

pytestmark = [pytest.mark.usefixtures("declared"), pytest.mark.xdist_group("fuzz")]  # cases are drawn once

CPU = torch.device("cpu")
Tensor = torch.Tensor

Enter = Callable[[str, Bind], Implementation]


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Case]]:
    """Few cases of each operation; of softmax and min, the far ones among many."""
    found = {}
    for op in ("softmax", "min"):
        cases = fuzz.draw(op, 2400, 7, 2**9)
        found[op] = cases[:800] + [case for case in cases[800:] if case.has_far_rows][:3]
    return found | {op: [case for case in fuzz.draw(op, 480, 7, 2**9) if not case.has_far_rows] for op in MADE_UP}


def softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Right: widened, and added up pairwise."""

    def launch() -> None:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        e = (wide - wide.amax(1, keepdim=True)).exp()
        out.copy_(e / e.sum(1, keepdim=True))

    return launch


def minimum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(x.amin(1)))


RIGHT: dict[str, Bind] = {"softmax": softmax, "min": minimum, **MADE_UP}

NOT_FOUND = {
    # Each call of a fuzzed kernel is bound anew, so that it has no last result, and doesn't wear out.
    "keeps its last result",
    "keeps its last result by a sample of x",
    "wears out",
    "right the first time alone",
}


@pytest.mark.parametrize("op", RIGHT)
def test_a_right_kernel_passes(op: str, enter: Enter, drawn: dict[str, list[Case]]) -> None:
    found = running.run(enter(op, RIGHT[op]), drawn[op], CPU)
    assert [(str(drawn[op][number]), words) for number, words in found.wrong] == []
    assert found.right + found.refused + found.faults + found.no_room == len(drawn[op])
    assert found.right > 0.8 * len(drawn[op]) and found.faults > 0


@pytest.mark.parametrize("bad", [bad for bad in KNOWN_BAD if not bad.gpu], ids=str)
def test_a_wrong_kernel_is_found(
    bad: Bad, enter: Enter, drawn: dict[str, list[Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What they are built on must itself be right, which torch.softmax on the host is not always.
    monkeypatch.setattr(known_bad, "softmax", lambda x: _softmax_of(x))
    hidden = bad.name in NOT_FOUND
    wrong = first_wrong(enter(bad.op, bad.bind), drawn[bad.op][: 200 if hidden else None])
    assert bool(wrong) != hidden, wrong[:3]


def first_wrong(implementation: Implementation, cases: list[Case], words: str = "") -> list[tuple[int, str]]:
    """What is wrong, in these words, in the first fifty cases of which any is."""
    for start in range(0, len(cases), 50):
        wrong = running.run(implementation, cases[start : start + 50], CPU).wrong
        if found := [one for one in wrong if words in one[1]]:
            return found
    return []


def _softmax_of(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    softmax(x, out)()
    return out


def lanes_without_a_mask(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Reads rows by 16 elements, past their ends."""
    outer, n, inner = x.shape
    whole = -(-n // 16) * 16
    room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    reach = 1 + (outer - 1) * x.stride(0) + (whole - 1) * x.stride(1) + (inner - 1) * x.stride(2)
    wide = x.as_strided((outer, whole if reach <= room else n, inner), x.stride(), x.storage_offset())
    return lambda: void(out.copy_(wide.amin(1)))


def a_start_that_is_taken_for_aligned(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Reads from the 16-byte boundary before x."""
    off = x.data_ptr() % 16 // x.element_size()
    return lambda: void(out.copy_(x.as_strided(x.shape, x.stride(), x.storage_offset() - off).amin(1)))


def strides_that_are_taken_for_contiguous(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(x.as_strided(x.shape, dense_strides(x.shape), x.storage_offset()).amin(1)))


def wrong_at_whole_warps(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(x.amin(1) if x.size(1) % 32 else x[:, : x.size(1) // 2].amin(1)))


def another_error(x: torch.Tensor, out: torch.Tensor) -> Launch:
    if x.size(1) == 2:
        raise ValueError("not two")
    return minimum(x, out)


def never_takes_an_out_with_gaps(x: torch.Tensor, out: torch.Tensor) -> Launch:
    whole = out.as_strided(out.shape, dense_strides(out.shape), out.storage_offset())
    return lambda: void(whole.copy_(x.amin(1)))


LAYOUT = (
    lanes_without_a_mask, a_start_that_is_taken_for_aligned, strides_that_are_taken_for_contiguous,
    wrong_at_whole_warps, another_error, never_takes_an_out_with_gaps,
)  # fmt: skip
"""Mistakes of layout, in a minimum."""


def test_a_failure_becomes_simple(enter: Enter, drawn: dict[str, list[Case]]) -> None:
    """Down to what makes it fail, and nothing else; and as text it is the same case."""
    implementation = enter("min", next(b.bind for b in KNOWN_BAD if b.name == "drops nan by its sign"))

    def fails(case: Case) -> bool:
        return bool(running.run(implementation, [case], CPU).wrong)

    floats = [case for case in drawn["min"] if case.dtype in operations.FLOATS]
    number = running.run(implementation, floats, CPU).wrong[0][0]
    simple = fuzz.reduce_case("min", floats[number], fails, 400)
    assert fails(simple)
    (name, _), *others = simple.specials
    assert name == "-nan" or (name.endswith("nan") and simple.negated), "a NaN whose sign bit is set"
    assert not others
    assert (math.prod(simple.shape), simple.outs, simple.x.offset, simple.seed) == (1, (), 0, 0)
    assert fuzz.parse_case(str(simple), "min") == simple

    implementation = enter("min", wrong_at_whole_warps)
    number = running.run(implementation, drawn["min"], CPU).wrong[0][0]
    simple = fuzz.reduce_case("min", drawn["min"][number], fails, 400)
    assert math.prod(simple.shape[d] for d in simple.axes) % 32 == 0 and math.prod(simple.shape) <= 128

    def in_warps(case: Case) -> bool:
        """Whatever its values."""
        return bool(case.elements and case.shape) and math.prod(case.shape[d] for d in case.axes) % 32 == 0

    for case in [case for case in drawn["min"] if in_warps(case) and not case.has_far_rows and not case.fault][::32]:
        simple = fuzz.reduce_case("min", case, in_warps, 400)
        assert math.prod(simple.shape[d] for d in simple.axes) == 32
        assert simple.elements <= 64 and not simple.has_far_rows


def test_a_reduction_asks_about_no_case_twice_and_ends(drawn: dict[str, list[Case]]) -> None:
    """And leaves alone what was not drawn, or was by a version whose choices made other cases."""
    case, asked = next(case for case in drawn["min"] if case.elements > 100 and case.specials), list[str]()

    def fails(candidate: Case) -> bool:
        asked.append(str(candidate))
        return candidate.elements > 3

    assert fuzz.reduce_case("min", case, fails, 12) != case
    assert len(asked) == len(set(asked)) <= 12 and str(case) not in asked
    asked.clear()
    pasted = fuzz.parse_case(str(case), "min")
    assert fuzz.reduce_case("min", pasted, fails, 12) is pasted and not asked
    older = replace(case, drawn=(case.drawn[0], (7,)))
    assert fuzz.reduce_case("min", older, lambda candidate: False, 12) is older


@pytest.mark.parametrize("op", ["softmax", "min"])
def test_cases_are_many_kinds_and_legal(op: str) -> None:
    cases = fuzz.draw(op, 1600, 5, 2**12)
    assert len({str(case) for case in cases}) == len(cases) == 1600
    assert fuzz.draw(op, 80, 3, 2**12) == fuzz.draw(op, 80, 3, 2**12) != fuzz.draw(op, 80, 4, 2**12)
    for case in cases:
        assert fuzz.parse_case(str(case), op) == case
        assert case.elements <= 2**12
        for out, shape in zip(case.outs, case.out_shapes(op), strict=False):
            memory = torch.empty(fuzz.span(shape, out.strides), device="meta")
            assert not overlaps_itself(memory.as_strided(shape, out.strides))
    assert {len(case.shape) for case in cases} == set(range(7))
    assert {case.dtype for case in cases} == set(operations.OPERATIONS[op].dtypes)
    assert {family for d in operations.FLOATS for family in values.families_of_dtype(d)} <= {c.values for c in cases}
    several = {
        "empty": lambda case: not case.elements,
        "one element": lambda case: case.elements == 1,
        "long": lambda case: case.elements > 2**11,
        "contiguous": lambda case: case.x.strides == dense_strides(case.shape),
        "expanded": lambda case: any(s == 0 and n > 1 for s, n in zip(case.x.strides, case.shape, strict=True)),
        "transposed": lambda case: list(case.x.strides) != sorted(case.x.strides, reverse=True),
        "offset": lambda case: case.x.offset % 8,
        "given out": lambda case: case.outs and case.elements,
        "given out with gaps": lambda case: case.outs and case.outs[0].strides != dense_strides(case.out_shapes(op)[0]),
        "special": lambda case: case.specials,
        "negated": lambda case: case.negated,
        "far": lambda case: case.has_far_rows,
        "negative axis": lambda case: isinstance(case.dim, int) and case.dim < 0,
    }
    if op == "min":
        several["axes"] = lambda case: isinstance(case.dim, tuple) and len(case.dim) > 1
        several["keepdim"] = lambda case: case.keepdim
    counts = Counter(name for case in cases for name, holds in several.items() if holds(case))
    assert {name for name in several if not counts[name]} == set(), counts
    assert {case.fault for case in cases} == {"", *fuzz.possible_faults(op, "float32")}


def test_a_group_shares_its_layout() -> None:
    """Sizes in one power of two, and the same modulo 16; strides of what does not overlap neither."""
    cases = fuzz.draw("softmax", 800, 5, 2**12)
    resized = 0
    for start in range(0, 800, fuzz.GROUP):
        first, *others = cases[start : start + fuzz.GROUP]
        for other in others if not first.has_far_rows else ():
            assert (other.dtype, other.dim, other.x.offset) == (first.dtype, first.dim, first.x.offset)
            for a, b in zip(first.shape, other.shape, strict=True):
                assert a.bit_length() == b.bit_length() and (a - b) % 16 == 0
            resized += other.shape != first.shape
    assert resized > 50


def test_special_values_are_what_their_names_say() -> None:
    for dtype in operations.FLOATS:
        kind = getattr(torch, dtype)
        info = torch.finfo(kind)
        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
        value = {
            name: torch.tensor(values.bits_of(name, dtype), dtype=integer).view(kind) for name in values.specials(dtype)
        }
        assert all(value[name].isnan() for name in ("nan", "-nan", "signaling nan"))
        assert value["-nan"].signbit() and not value["nan"].signbit()
        plain = {"inf": math.inf, "-inf": -math.inf, "0": 0.0, "max": info.max, "-max": -info.max, "tiny": info.tiny}
        assert {name: value[name].item() for name in plain} == plain
        assert value["-0"] == 0 and value["-0"].signbit()
        assert 0 < value["subnormal"].double().item() == -value["-subnormal"].double().item() < info.tiny
    assert [values.bits_of(name, "uint8") for name in ("least", "most", "ones")] == [0, -1, -1]
    assert [values.bits_of(name, "int16") for name in ("least", "most", "zero")] == [-32768, 32767, 0]


def test_families_are_finite_or_mean_it() -> None:
    for dtype in operations.OPERATIONS["min"].dtypes:
        for family in values.families_of_dtype(dtype):
            drawn = values.draw(family, (64, 65), dtype, torch.Generator().manual_seed(0))
            assert (drawn.dtype, drawn.shape) == (getattr(torch, dtype), (64, 65))
            if dtype in operations.FLOATS and family not in ("masked", "low"):
                assert drawn.isfinite().all(), (dtype, family)


def test_a_wrong_error_is_found(enter: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that is not refused, or by another error, or one that changes x."""
    plain = Case("float32", (3, 4), Layout((4, 1)))
    faulty = [replace(plain, fault=fault) for fault in fuzz.possible_faults("softmax", "float32")]
    implementation = enter("softmax", softmax)
    assert running.run(implementation, faulty, CPU).faults == len(faulty) == 15
    monkeypatch.setattr(operations.Operation, "check_outs", lambda *arguments, **named: None)
    wrong = dict(running.run(implementation, faulty, CPU).wrong)
    told = {case.fault for case in faulty if "out " in case.fault} - {"an axis out of range"}
    assert {faulty[number].fault for number in wrong} == told and len(told) == 5


# Operations that are made up: several inputs and outputs, scalars, axes with names


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
    dense = index.as_strided(index.shape, dense_strides(index.shape), index.storage_offset())
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
    *(("min", bind, "") for bind in LAYOUT),
)


@pytest.mark.parametrize(("op", "bind", "words"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_a_mistake_is_found(op: str, bind: Bind, words: str, enter: Enter, drawn: dict[str, list[Case]]) -> None:
    found = first_wrong(enter(op, bind), [case for case in drawn[op] if not case.has_far_rows], words)
    assert found


def shrunk(implementation: Implementation, cases: list[Case]) -> Case:
    """The first failing case made simple."""
    op = implementation.op

    def fails(case: Case) -> bool:
        return bool(running.run(implementation, [case], CPU).wrong)

    simple = fuzz.reduce_case(op, next(filter(fails, cases)), fails, 400)
    assert fails(simple) and fuzz.parse_case(str(simple), op) == simple
    return simple


def test_a_failure_of_several_inputs_becomes_simple(enter: Enter, drawn: dict[str, list[Case]]) -> None:
    """Down to what makes it fail, and nothing else."""
    simple = shrunk(enter("own_norm", ignores_eps), drawn["own_norm"])
    assert simple == Case("float32", simple.shape, Layout(dense_strides(simple.shape)), scalars=(("eps", 0.5),))
    assert simple.elements == 1

    simple = shrunk(enter("own_norm", takes_weight_for_contiguous), drawn["own_norm"])
    assert simple.elements == 2 and simple.outs == () and simple.scalars == () and simple.specials == ()
    assert simple.x == Layout(dense_strides(simple.shape))
    (weight,) = simple.companions
    assert weight.layout is not None and weight.layout.strides != (1,)
    assert replace(weight, layout=None) == CompanionInput("weight")

    simple = shrunk(enter("pick", takes_no_unknown), drawn["pick"])
    assert simple.elements * dict(simple.sizes)["N"] <= 8
    assert (simple.outs, simple.companions, simple.x) == ((), (), Layout(dense_strides(simple.shape)))

    simple = shrunk(enter("row_sum", sums_whole_blocks), drawn["row_sum"])
    assert simple.shape[0] == 1 and simple.shape[1] in (2, 9) and simple.values == "normal"


# Cases


@pytest.mark.parametrize("op", MADE_UP)
def test_cases_of_several_inputs_are_many_kinds_and_legal(op: str) -> None:
    cases = fuzz.draw(op, 800, 3, 2**12)
    operation = operations.OPERATIONS[op]
    assert len({str(case) for case in cases}) == 800 and cases == fuzz.draw(op, 800, 3, 2**12)
    for case in cases:
        assert fuzz.parse_case(str(case), op) == case
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
    assert {case.fault for case in cases} - {""} <= set(fuzz.possible_faults(op, "float32"))
    assert {case.dtype for case in cases} == set(operation.dtypes)


def test_values_are_within_what_the_operation_says() -> None:
    generator = torch.Generator()
    operation = operations.OPERATIONS["own_norm"]
    for case in [case for case in fuzz.draw("own_norm", 200, 3, 2**9) if not case.has_far_rows and case.elements]:
        (_, x), _ = place_inputs(operation, case, generator)
        finite = x.double().where(x.isfinite(), 0).resolve_neg()
        assert finite.square().mean(case.axes or None).max() < torch.finfo(torch.float32).max, case
    unknown = 0
    for case in fuzz.draw("pick", 200, 3, 2**9):
        (_, x), (_, index) = place_inputs(operations.OPERATIONS["pick"], case, generator)
        assert not index.numel() or -1 <= index.min() <= index.max() < max(1, x.size(1))
        unknown += int((index == -1).sum())
    assert unknown


def test_json_has_what_is_not_at_its_default() -> None:
    weight = CompanionInput("weight", "", Layout((2,), 3), "wide", (("nan", 0),), True)
    case = Case("float32", (3, 4), Layout((4, 1)), companions=(weight,), scalars=(("eps", 0.5),))
    assert str(case) == (
        '{"dtype":"float32","shape":[3,4],"dim":-1,"strides":[4,1],"values":"normal","seed":0,'
        '"weight":{"strides":[2],"offset":3,"values":"wide","specials":[["nan",0]],"negated":true},'
        '"scalars":{"eps":0.5}}'
    )
    assert fuzz.parse_case(str(case), "own_norm") == case
    text = '{"dtype":"float32","shape":[2,3],"sizes":{"N":4},"out":[[[4,1],0],[[8,2],1]]}'
    case = fuzz.parse_case(text, "pick")
    assert case.outs == (Layout((4, 1)), Layout((8, 2), 1)) and case.dim is None
    assert fuzz.parse_case(str(case), "pick") == case


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
        fuzz.parse_case(text, op)


@pytest.mark.parametrize("op", MADE_UP)
def test_every_fault_raises_its_error(op: str, enter: Enter) -> None:
    """Where an output may be x, out within x is a fault all the same."""
    case = {
        "own_norm": Case("float32", (3, 4), Layout((4, 1))),
        "pick": Case("float32", (3, 4), Layout((4, 1)), None, sizes=(("N", 2),)),
        "row_sum": Case("float32", (3, 4), Layout((4, 1)), None),
    }[op]
    names = fuzz.possible_faults(op, "float32")
    assert ("another shape of an input" in names) == (op != "row_sum") and ("no axis" in names) == (op == "own_norm")
    assert ("outs upon each other" in names) == (op == "pick")
    shapes = [case, *([replace(case, shape=(1,), x=Layout((1,)))] if op == "own_norm" else [])]
    cases = [replace(one, fault=fault, seed=seed) for one in shapes for fault in names for seed in range(4)]
    found = running.run(enter(op, RIGHT[op]), cases, CPU)
    assert [(str(cases[number]), words) for number, words in found.wrong] == []
    assert found.faults == len(cases)


def test_a_fault_beside_a_negated_input_raises_its_error(enter: Enter) -> None:
    weight = CompanionInput("weight", negated=True)
    case = Case("float16", (), Layout((), 0), -1, fault="an axis out of range", companions=(weight,))
    found = running.run(enter("own_norm", RIGHT["own_norm"]), [case], CPU)
    assert (found.wrong, found.faults) == ([], 1)


def test_each_input_has_values_of_its_own() -> None:
    case = Case("float32", (8,), Layout((1,)), seed=5)
    (_, x), (_, weight) = place_inputs(operations.OPERATIONS["own_norm"], case, torch.Generator())
    assert not torch.equal(x, weight)
    assert torch.equal(x, values.draw("normal", (8,), "float32", torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("op", ["own_norm", "pick"])
def test_hypothesis_makes_up_cases_too(op: str, enter: Enter) -> None:
    implementation = enter(op, RIGHT[op])

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=fuzz.case_strategy(op, 2**7))
    def passes(case: Case) -> None:
        assert fuzz.parse_case(str(case), op) == case
        if not case.has_far_rows:
            found = running.run(implementation, [case], CPU)
            assert (found.wrong, found.right + found.faults) == ([], 1)

    passes()
