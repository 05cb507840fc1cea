"""Fuzzing: known wrong kernels are found, right ones pass; cases are what they say, and become simpler."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import known_bad
import pytest
import torch
from known_bad import KNOWN_BAD, Bad

from kernelzoo import operations
from kernelzoo.check import fuzz
from kernelzoo.check.fuzz import Case, Layout, contiguous, running, values
from kernelzoo.launch import Bind, Launch, void
from kernelzoo.operations.memory import overlaps_itself
from kernelzoo.registry import Implementation

pytestmark = pytest.mark.xdist_group("fuzz")  # the cases are drawn once

CPU = torch.device("cpu")

Enter = Callable[[str, Bind], Implementation]


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Case]]:
    """Few cases of either operation; the far ones among many."""
    found = {}
    for op in RIGHT:
        cases = fuzz.draw(op, 2400, 7, 2**9)
        found[op] = cases[:800] + [case for case in cases[800:] if case.far][:3]
    return found


def softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Right: widened, and added up pairwise."""

    def launch() -> None:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        e = (wide - wide.amax(1, keepdim=True)).exp()
        out.copy_(e / e.sum(1, keepdim=True))

    return launch


def minimum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(x.amin(1)))


RIGHT: dict[str, Bind] = {"softmax": softmax, "min": minimum}

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
    assert found.wrong == []
    assert found.right + found.refused + found.faults + found.no_room == len(drawn[op])
    assert found.right > 700 and found.faults > 0


@pytest.mark.parametrize("bad", [bad for bad in KNOWN_BAD if not bad.gpu], ids=str)
def test_a_wrong_kernel_is_found(
    bad: Bad, enter: Enter, drawn: dict[str, list[Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What they are built on must itself be right, which torch.softmax on the host is not always.
    monkeypatch.setattr(known_bad, "softmax", lambda x: _softmax_of(x))
    hidden = bad.name in NOT_FOUND
    wrong = first_wrong(enter(bad.op, bad.bind), drawn[bad.op][: 200 if hidden else None])
    assert bool(wrong) != hidden, wrong[:3]


def first_wrong(implementation: Implementation, cases: list[Case]) -> list[tuple[int, str]]:
    """What is wrong in the first fifty cases of which any is."""
    parts = (cases[start : start + 50] for start in range(0, len(cases), 50))
    return next((found.wrong for part in parts if (found := running.run(implementation, part, CPU)).wrong), [])


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
    return lambda: void(out.copy_(x.as_strided(x.shape, contiguous(x.shape), x.storage_offset()).amin(1)))


def wrong_at_whole_warps(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(x.amin(1) if x.size(1) % 32 else x[:, : x.size(1) // 2].amin(1)))


def another_error(x: torch.Tensor, out: torch.Tensor) -> Launch:
    if x.size(1) == 2:
        raise ValueError("not two")
    return minimum(x, out)


def never_takes_an_out_with_gaps(x: torch.Tensor, out: torch.Tensor) -> Launch:
    whole = out.as_strided(out.shape, contiguous(out.shape), out.storage_offset())
    return lambda: void(whole.copy_(x.amin(1)))


@pytest.mark.parametrize(
    "bind",
    [
        lanes_without_a_mask,
        a_start_that_is_taken_for_aligned,
        strides_that_are_taken_for_contiguous,
        wrong_at_whole_warps,
        another_error,
        never_takes_an_out_with_gaps,
    ],
)
def test_mistakes_of_layout_are_found(bind: Bind, enter: Enter, drawn: dict[str, list[Case]]) -> None:
    cases = [case for case in drawn["min"] if not case.far]
    assert first_wrong(enter("min", bind), cases)


def test_a_failure_becomes_simple(enter: Enter, drawn: dict[str, list[Case]]) -> None:
    """Down to what makes it fail, and nothing else; and as text it is the same case."""
    implementation = enter("min", next(b.bind for b in KNOWN_BAD if b.name == "drops nan by its sign"))

    def fails(case: Case) -> bool:
        return bool(running.run(implementation, [case], CPU).wrong)

    floats = [case for case in drawn["min"] if case.dtype in operations.FLOATS]
    number = running.run(implementation, floats, CPU).wrong[0][0]
    simple = fuzz.reduce("min", floats[number], fails, 400)
    assert fails(simple)
    (name, _), *others = simple.specials
    assert name == "-nan" or (name.endswith("nan") and simple.negated), "a NaN whose sign bit is set"
    assert not others
    assert (math.prod(simple.shape), simple.outs, simple.x.offset, simple.seed) == (1, (), 0, 0)
    assert fuzz.parse(str(simple), "min") == simple

    implementation = enter("min", wrong_at_whole_warps)
    number = running.run(implementation, drawn["min"], CPU).wrong[0][0]
    simple = fuzz.reduce("min", drawn["min"][number], fails, 400)
    assert math.prod(simple.shape[d] for d in simple.axes) % 32 == 0 and math.prod(simple.shape) <= 128

    def in_warps(case: Case) -> bool:
        """Whatever its values."""
        return bool(case.elements and case.shape) and math.prod(case.shape[d] for d in case.axes) % 32 == 0

    for case in [case for case in drawn["min"] if in_warps(case) and not case.far and not case.fault][::32]:
        simple = fuzz.reduce("min", case, in_warps, 400)
        assert math.prod(simple.shape[d] for d in simple.axes) == 32 and simple.elements <= 64 and not simple.far


def test_a_reduction_asks_about_no_case_twice_and_ends(drawn: dict[str, list[Case]]) -> None:
    """And leaves alone what was not drawn, or was by a version whose choices made other cases."""
    case, asked = next(case for case in drawn["min"] if case.elements > 100 and case.specials), list[str]()

    def fails(candidate: Case) -> bool:
        asked.append(str(candidate))
        return candidate.elements > 3

    assert fuzz.reduce("min", case, fails, 12) != case
    assert len(asked) == len(set(asked)) <= 12 and str(case) not in asked
    asked.clear()
    pasted = fuzz.parse(str(case), "min")
    assert fuzz.reduce("min", pasted, fails, 12) is pasted and not asked
    older = replace(case, drawn=(case.drawn[0], (7,)))
    assert fuzz.reduce("min", older, lambda candidate: False, 12) is older


@pytest.mark.parametrize("op", RIGHT)
def test_cases_are_many_kinds_and_legal(op: str) -> None:
    cases = fuzz.draw(op, 1600, 5, 2**12)
    assert len({str(case) for case in cases}) == len(cases) == 1600
    assert fuzz.draw(op, 80, 3, 2**12) == fuzz.draw(op, 80, 3, 2**12) != fuzz.draw(op, 80, 4, 2**12)
    for case in cases:
        assert fuzz.parse(str(case), op) == case
        assert case.elements <= 2**12
        for out, shape in zip(case.outs, case.out_shapes(op), strict=False):
            memory = torch.empty(fuzz.span(shape, out.strides), device="meta")
            assert not overlaps_itself(memory.as_strided(shape, out.strides))
    assert {len(case.shape) for case in cases} == set(range(7))
    assert {case.dtype for case in cases} == set(operations.OPERATIONS[op].dtypes)
    assert {family for dtype in operations.FLOATS for family in values.families(dtype)} <= {c.values for c in cases}
    several = {
        "empty": lambda case: not case.elements,
        "one element": lambda case: case.elements == 1,
        "long": lambda case: case.elements > 2**11,
        "contiguous": lambda case: case.x.strides == contiguous(case.shape),
        "expanded": lambda case: any(s == 0 and n > 1 for s, n in zip(case.x.strides, case.shape, strict=True)),
        "transposed": lambda case: list(case.x.strides) != sorted(case.x.strides, reverse=True),
        "offset": lambda case: case.x.offset % 8,
        "given out": lambda case: case.outs and case.elements,
        "given out with gaps": lambda case: case.outs and case.outs[0].strides != contiguous(case.out_shapes(op)[0]),
        "special": lambda case: case.specials,
        "negated": lambda case: case.negated,
        "far": lambda case: case.far,
        "negative axis": lambda case: isinstance(case.dim, int) and case.dim < 0,
    }
    if op == "min":
        several["axes"] = lambda case: isinstance(case.dim, tuple) and len(case.dim) > 1
        several["keepdim"] = lambda case: case.keepdim
    counts = Counter(name for case in cases for name, holds in several.items() if holds(case))
    assert {name for name in several if not counts[name]} == set(), counts
    assert {case.fault for case in cases} == {"", *fuzz.faults(op, "float32")}


def test_a_group_shares_its_layout() -> None:
    """Sizes in one power of two, and the same modulo 16; strides of what does not overlap neither."""
    cases = fuzz.draw("softmax", 800, 5, 2**12)
    resized = 0
    for start in range(0, 800, fuzz.GROUP):
        first, *others = cases[start : start + fuzz.GROUP]
        for other in others if not first.far else ():
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
            name: torch.tensor(values.special(name, dtype), dtype=integer).view(kind) for name in values.specials(dtype)
        }
        assert all(value[name].isnan() for name in ("nan", "-nan", "signaling nan"))
        assert value["-nan"].signbit() and not value["nan"].signbit()
        plain = {"inf": math.inf, "-inf": -math.inf, "0": 0.0, "max": info.max, "-max": -info.max, "tiny": info.tiny}
        assert {name: value[name].item() for name in plain} == plain
        assert value["-0"] == 0 and value["-0"].signbit()
        assert 0 < value["subnormal"].double().item() == -value["-subnormal"].double().item() < info.tiny
    assert [values.special(name, "uint8") for name in ("least", "most", "ones")] == [0, -1, -1]
    assert [values.special(name, "int16") for name in ("least", "most", "zero")] == [-32768, 32767, 0]


def test_families_are_finite_or_mean_it() -> None:
    for dtype in operations.OPERATIONS["min"].dtypes:
        for family in values.families(dtype):
            drawn = values.draw(family, (64, 65), dtype, torch.Generator().manual_seed(0))
            assert (drawn.dtype, drawn.shape) == (getattr(torch, dtype), (64, 65))
            if dtype in operations.FLOATS and family not in ("masked", "low"):
                assert drawn.isfinite().all(), (dtype, family)


def test_a_wrong_error_is_found(enter: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that is not refused, or by another error, or one that changes x."""
    plain = Case("float32", (3, 4), Layout((4, 1)))
    faulty = [replace(plain, fault=fault) for fault in fuzz.faults("softmax", "float32")]
    implementation = enter("softmax", softmax)
    assert running.run(implementation, faulty, CPU).faults == len(faulty) == 15
    monkeypatch.setattr(operations.Operation, "check_outs", lambda *arguments, **named: None)
    wrong = dict(running.run(implementation, faulty, CPU).wrong)
    told = {case.fault for case in faulty if "out " in case.fault} - {"an axis out of range"}
    assert {faulty[number].fault for number in wrong} == told and len(told) == 5
