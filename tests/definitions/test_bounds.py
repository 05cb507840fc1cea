"""The bounds of a definition: right kernels pass, wrong ones don't, and a case its own reference fails is no case."""

import gc
import json
import weakref
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import definitions, measure, registry
from kernelzoo.check import verifying
from kernelzoo.check.cases import cases
from kernelzoo.definitions import reference
from kernelzoo.definitions.reference import Reference
from kernelzoo.definitions.tolerance import VARIABLE, Tolerance, tolerance_of
from kernelzoo.errors import ContractError, OperationError, UndecidableError
from kernelzoo.launch import ResultCopyingLaunch, postpone_result_copies
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import Arguments, Operation
from kernelzoo.operations.expected import bounds_of

Load = Callable[..., Operation]


@pytest.fixture
def solved(written: Callable[..., Path]) -> Callable[[str], kernelzoo.Implementation]:
    def load(code: str, *, returns: bool = True) -> kernelzoo.Implementation:
        spec = {"languages": ["pytorch"], "entry_point": "main.py::run", "destination_passing_style": not returns}
        sources = [{"path": "main.py", "content": f"import torch\nimport torch.nn.functional as F\n\n{code}"}]
        made = {"name": "mine", "definition": "made", "author": "An Author", "spec": spec, "sources": sources}
        return definitions.load_solution(written(made, "solution.json"))

    return load


GELU = """
def run(x):
    wide = x.float()
    inner = 0.7978845608028654 * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)
"""
SILU = "def run(x):\n    wide = x.float()\n    return (wide / (1 + torch.exp(-wide))).to(x.dtype)"
ROPE = """
def run(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)
"""
HALF = (["rows", "16"], "bfloat16"), (["rows", "16"], "float32")


def right(op: Operation, inputs: tuple[torch.Tensor, ...]) -> Arguments:
    """The arguments of a call; the reference as written passes on them."""
    args = op.arguments(inputs)
    assert op.undecidable(args, op.expect(args)) == ""
    return args


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("code", [GELU, SILU], ids=["gelu", "silu"])
def test_activations_pass_their_own_definitions(load: Load, code: str, dtype: str) -> None:
    op = load(code, {"x": (["rows"], dtype)}, {"out": (["rows"], dtype)})
    kind = getattr(torch, dtype)
    x = torch.linspace(-30, 30, 8192).to(kind)
    args = right(op, (x,))
    right(op, (torch.tensor([25.0, -25.0, 1e-30, -0.0, 88.5, -88.5]).to(kind),))
    expected = op.expect(args)
    exact = (
        torch.nn.functional.gelu(x.double(), approximate="tanh") if code == GELU else x.double().sigmoid() * x.double()
    )
    expected.check((exact.to(kind),))
    for wrong in (
        exact * 1.02,
        torch.where(x > 10, torch.nan, exact),
        torch.nn.functional.gelu(x.double())
        if code == GELU
        else x.double() * 0.5 * (1 + torch.tanh(x.double() * 0.49)),
        exact.roll(1),
        exact * 0,
    ):
        with pytest.raises(ContractError, match="elements wrong"):
            expected.check((wrong.to(kind),))


def test_rope_passes_its_own_definition(load: Load) -> None:
    half = (["rows", "8"], "float32")
    op = load(ROPE, {"x": HALF[0], "cos": half, "sin": half}, {"out": HALF[0]})
    angles = torch.arange(64).view(64, 1) / 10000 ** (torch.arange(8) / 8)
    x = torch.randn(64, 16).bfloat16()
    args = right(op, (x, angles.cos(), angles.sin()))
    turned = torch.cat([x.double()[:, 8:], x.double()[:, :8]], -1)
    with pytest.raises(ContractError, match="elements wrong"):
        op.expect(args).check((turned.bfloat16(),))


def test_a_case_that_the_reference_fails_is_undecidable(load: Load, solved: Callable[..., Any]) -> None:
    op = load("def run(x):\n    return (x * x).sqrt()", {"x": (["rows"], "float32")}, {"out": (["rows"], "float32")})
    right(op, (torch.tensor([2.0, 3.0]),))
    args = op.arguments((torch.tensor([1e25, 3.0]),))  # its square overflows in float32, and not in float64
    assert "1 of 2 elements wrong" in op.undecidable(args, op.expect(args))


def test_a_reference_that_raises_leaves_the_case_undecided(load: Load) -> None:
    code = "def run(x):\n    assert x.shape[0] > 3, 'too few'\n    return 2 * x"
    op = load(code, {"x": (["rows"], "float32")}, {"out": (["rows"], "float32")})
    args = op.arguments((torch.ones(2),))
    with pytest.raises(UndecidableError, match="its reference fails on such inputs: AssertionError: too few"):
        op.expect(args)


@pytest.mark.parametrize("returned", ["cache", "cache[:2]", "cache.clone()"])
def test_a_reference_that_returns_a_changed_input_decides_nothing(load: Load, returned: str) -> None:
    code = f"def run(x, cache):\n    cache[0] = x[0]\n    return {returned}"
    rows = (["2"] if "[" in returned else ["rows"], "float32")
    op = load(code, {"x": (["rows"], "float32"), "cache": (["rows"], "float32")}, {"out": rows})
    args = op.arguments((torch.ones(4), torch.zeros(4)))
    if "clone" in returned:
        assert op.undecidable(args, op.expect(args)) == "" and args.inputs[1][0] == 0
    else:
        with pytest.raises(UndecidableError, match="its reference changes its input cache and returns it"):
            op.undecidable(args, op.expect(args))


def test_a_reference_that_changes_an_input_is_undecidable_itself(load: Load) -> None:
    """Where it does not return it, others are judged: they get inputs that nothing has changed."""
    rows = (["rows"], "float32")
    load("def run(x, seen):\n    seen.add_(x)\n    return 2 * x", {"x": rows, "seen": rows}, {"out": rows})
    own = kernelzoo.implementation("reference/made/reference")
    checks = verifying.checks_of(own, torch.device("cpu"), whole=True)
    found = verifying.verify(own, checks, torch.device("cpu"), whole=True, progress=lambda name, known: None)
    assert not found.findings and not found.passed
    assert {*found.undecidable.values()} == {"its reference changes its input seen"}


DOUBLE = "def run(x):\n    return 2 * x"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("2 * x.float()", "has dtype torch.float32, must have torch.bfloat16"),
        ("2 * x[:, :1]", r"has shape \(4, 1\), must have \(4, 16\)"),
        ("(2 * x, x)", "returned 2 results, must return 1: out"),
        ("None", "returned NoneType as out"),
        ("{'other': 2 * x}", "a dict without 'out'"),
        ("(2 * x).to('meta')", "has device meta, must have cpu"),
    ],
)
def test_results_that_are_returned_are_checked(load: Load, solved: Callable[..., Any], code: str, words: str) -> None:
    op = load(DOUBLE, {"x": HALF[0]}, {"out": HALF[0]})
    implementation = solved(f"def run(x):\n    return {code}")
    x = torch.randn(4, 16).bfloat16()
    launch = implementation.launch(x, out=torch.empty_like(x))
    with pytest.raises(ContractError, match=words):
        launch()
    assert op.name == "made"


@pytest.mark.parametrize("of", ["reference", "solution"])
def test_the_copy_of_a_returned_result_is_not_timed(load: Load, solved: Callable[..., Any], of: str) -> None:
    op = load(DOUBLE, {"x": HALF[0]}, {"out": HALF[0]})
    (implementation,) = registry.implementations("reference", "made")
    if of == "solution":
        implementation = solved("calls = []\n\ndef run(x):\n    calls.append(1)\n    return 2 * x")
    x = torch.randn(4, 16).bfloat16()
    out = torch.zeros_like(x)
    launch = implementation.launch(x, out=out)
    with postpone_result_copies(1) as waiting:
        launch()
        launch()
        assert not out.any() and len(waiting) == 1
    waiting[0]()
    assert torch.equal(out, 2 * x)
    launch()  # elsewhere it delivers at once
    assert torch.equal(out, 2 * x) and op.rounds


def test_a_race_takes_returned_results_as_they_are(load: Load, solved: Callable[..., Any]) -> None:
    load(DOUBLE, {"x": HALF[0]}, {"out": HALF[0]})
    device, problem = torch.device("cpu"), Problem("made", (64, 16), "bfloat16")
    entrant = measure.Entrant(solved("def run(x):\n    return 2 * x"), measure.LocalRunner(device))
    (one,) = measure.race(problem, [entrant], device, rounds=2).values()
    assert len(one.samples) == 2
    kept = (
        "kept = {}\n\ndef run(x):\n    out = kept.setdefault('out', torch.empty_like(x))\n    return out.copy_(2 * x)"
    )
    found = measure.race(problem, [measure.Entrant(solved(kept), measure.LocalRunner(device))], device, rounds=2)
    (one,) = found.values()
    assert not one.samples, "every launch must return memory of its own"


def test_what_its_author_does_not_mean_is_reported_apart(
    load: Load, solved: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [{"uuid": str(n), "axes": {"rows": n}, "inputs": {"x": {"type": "random"}}} for n in (64, 1024, 4096, 96)]
    (tmp_path / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    op = load(DOUBLE, {"x": HALF[0]}, {"out": HALF[0]})
    made = cases(op.name)
    meant = [case for case in made if not case.beyond]
    assert {case.name for case in meant} >= {"bfloat16-rows=64", "bfloat16-rows=96", "bfloat16-rows=4096"}
    assert all(case.inputs("cpu")[0].is_contiguous() for case in meant) and len(made) > len(meant)
    assert all(int(case.name.partition("=")[2]) % 32 == 0 for case in meant), "all workloads are multiples of 32"
    implementation = solved("def run(x):\n    return 2 * x.nan_to_num(0.0)")
    device = torch.device("cpu")
    checks = verifying.checks_of(implementation, device, whole=True)
    found = verifying.verify(implementation, checks, device, whole=True, progress=lambda name, known: None)
    assert not found.findings and found.passed == len(meant)
    assert found.beyond and {finding.kind for finding in found.beyond} <= {"drops NaN", "wrong value"}
    gate = measure.Gate(measure.TensorSets(Problem(op.name, (64, 16), "bfloat16"), 3, device), 0)
    assert not any(x.isnan().any() for x in gate.last_turn_inputs)


def test_sizes_keep_what_holds_in_all_workloads(load: Load, tmp_path: Path) -> None:
    lines = [
        {"uuid": str(n), "axes": {"queries": n, "keys": n, "ends": n // 128 + 1, "parts": n // 128}, "inputs": {}}
        for n in (1024, 8192, 16384)
    ]
    (tmp_path / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    code = "def run(q, k, ends, parts):\n    assert q.shape[1] > 0\n    return q * k.sum() + ends.sum() + parts.sum()"
    axes_of = {"q": ["queries", "64"], "k": ["keys", "64"], "ends": ["ends"], "parts": ["parts"]}
    inputs = {name: (names, "float32") for name, names in axes_of.items()}
    axes = {axis: {"type": "var"} for axis in ("queries", "keys", "ends", "parts")}
    op = load(code, inputs, {"out": (["queries", "64"], "float32")}, **axes)
    assert op.hooks["sizes"] and all(
        sizes["queries"] == sizes["keys"] and sizes["queries"] % 128 == 0 and sizes["ends"] == sizes["parts"] + 1
        for sizes in op.hooks["sizes"]
    )
    assert op.hooks["workloads"][-1]["queries"] == 16384
    lines = [{"uuid": str(n), "axes": {"rows": n}, "inputs": {}} for n in (1, 64, 512)]
    (tmp_path / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    op = load("def run(x):\n    return 2 * x", {"x": HALF[0]}, {"out": HALF[0]})
    assert {"rows": 394} in op.hooks["sizes"]  # blocks of powers of two have a tail


def test_a_returning_launch_is_what_a_user_may_build() -> None:
    found: list[int] = []
    ResultCopyingLaunch(lambda: 3, found.append)()
    assert found == [3]


def test_a_race_that_decides_nothing_says_so(load: Load, solved: Callable[..., Any]) -> None:
    code = "def run(x):\n    return (x.float() * 1e30 * 1e30 / 1e30 / 1e30).to(x.dtype)"
    op = load(code, {"x": HALF[0]}, {"out": HALF[0]})
    device = torch.device("cpu")
    problem = Problem("made", (64, 16), "bfloat16")
    solution = solved("def run(x):\n    return x.clone()")
    (one,) = measure.race(problem, [measure.Entrant(solution, measure.LocalRunner(device))], device, rounds=2).values()
    assert not one.samples and not one.wrong and "its own reference is wrong here" in one.refused
    x = torch.ones(2, 16).bfloat16()
    op.expect(op.arguments((x,))).check((x * 3,))  # decided for nobody
    with pytest.raises(ContractError, match="has dtype"):
        op.expect(op.arguments((x,))).check((x.float(),))


def test_their_tolerance_is_used_only_when_asked_for(
    load: Load, solved: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerance = {"max_atol": 0.05, "max_rtol": 0.01, "required_match_ratio": 0.9}
    line = {"uuid": "1", "axes": {"rows": 8}, "inputs": {"x": {"type": "random"}}, "tolerance": tolerance}
    (tmp_path / "workload.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    x = torch.randn(8, 16).bfloat16()
    near = (2 * x + 0.03,)
    far = near[0].clone()
    far.view(-1)[:20] += 5
    op = load(DOUBLE, {"x": HALF[0]}, {"out": HALF[0]})
    assert op.hooks["tolerance"] == "0.9 of all elements within 0.05 + 0.01 of the result"
    with pytest.raises(ContractError, match="expected"):
        op.expect(op.arguments((x,))).check(near)
    monkeypatch.setenv(VARIABLE, "1")
    expected = load(DOUBLE, {"x": HALF[0]}, {"out": HALF[0]}).expect(op.arguments((x,)))
    expected.check(near)
    other = {**line, "inputs": {"k": {"type": "scalar", "value": 2}}, "tolerance": {**tolerance, "max_atol": 0.5}}
    both = [
        line | {"inputs": {"k": {"type": "scalar", "value": 1}}},
        other,
        {**line, "axes": {"rows": 9}, "tolerance": {}},
    ]
    found = [tolerance_of(both, {"rows": rows, "k": k}) for rows, k in ((8, 1), (8, 2), (9, 1))]
    assert [one.max_atol for one in found if one] == [0.05, 0.5, Tolerance().max_atol]
    for wrong, words in ((far, "0.8438 of 128 elements"), (near[0] / 0, "some not finite"), (near[0].float(), "dtype")):
        with pytest.raises(ContractError, match=words):
            expected.check((wrong,))


def test_bounds_are_learnt_only_as_far_as_a_result_needs(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bound lies within the next, the last but one is what ``error`` allows, and a close result asks for one."""
    code = "def run(x):\n    return F.layer_norm(x, (x.shape[-1],))"
    matrix = (["rows", "64"], "bfloat16")
    op = load(code, {"x": matrix}, {"out": matrix})
    args = op.arguments((torch.randn(9, 64).bfloat16(),))
    runs = list[int]()
    wide = Reference.run_in_float64
    monkeypatch.setattr(Reference, "run_in_float64", lambda self, given: runs.append(1) or wide(self, given))
    expected = op.expect(args)
    exact = op.reference(args)[0]
    expected.check((exact.bfloat16(),))
    assert len(runs) == 2  # one of them is that of ``op.reference``
    with pytest.raises(ContractError):
        expected.check((exact.bfloat16() * 1.5,))
    assert len(runs) == 8
    error = op.allowed_error(args, exact)
    bounds, found = [], expected
    while found is not None:
        bounds.append(found.outputs[0])
        found = found.wider and found.wider()
    assert len(bounds) == 5 and len(runs) < 20
    for inner, outer in pairwise(bounds):
        assert (inner.lower >= outer.lower).all() and (inner.upper <= outer.upper).all()
    lower, upper = bounds_of(exact, error, torch.bfloat16)
    assert torch.equal(bounds[-2].lower, lower) and torch.equal(bounds[-2].upper, upper)


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        ("torch.normal(x, 1.0)", "its reference draws random numbers, so no result is the right one"),
        ("torch.nn.Dropout(0.5)(x)", "its reference draws random numbers"),
        ("torch.nn.functional.gumbel_softmax(x, dim=0)", "its reference draws random numbers"),
        ("x * __import__('random').random()", "its reference draws random numbers"),
        ("x * __import__('numpy').random.normal()", "its reference draws random numbers"),
        ("(torch.manual_seed(3), torch.normal(x, 1.0))[1]", ""),
        ("x + 0 * torch.normal(x, 1.0)", ""),
    ],
)
def test_what_a_reference_draws_decides_nothing(load: Load, drawn: str, words: str) -> None:
    """Its noise would be learnt into the bounds. Numbers from a seed of its own are as good as constants."""
    op = load(f"def run(x):\n    return {drawn}", {"x": (["rows"], "float32")}, {"out": (["rows"], "float32")})
    args = op.arguments((torch.randn(50),))
    if words:
        with pytest.raises(UndecidableError, match=words):
            op.undecidable(args, op.expect(args))
    else:
        op.undecidable(args, op.expect(args))


def test_a_reference_that_returns_nothing_says_so(load: Load) -> None:
    op = load("def run(x):\n    pass", {"x": (["rows"], "float32")}, {"out": (["rows"], "float32")})
    with pytest.raises(OperationError, match=r"its reference returned builtins\.NoneType for out"):
        op.expect(op.arguments((torch.randn(5),)))


def test_bounds_are_freed_at_once(load: Load) -> None:
    """A large problem's bounds fill a device before Python's garbage collector runs."""
    matrix = (["rows", "64"], "bfloat16")
    op = load("def run(x):\n    return (x.bfloat16() * 2).float()", {"x": matrix}, {"out": matrix})
    gc.collect()
    gc.disable()
    try:
        expected = op.expect(op.arguments((torch.randn(9, 64).bfloat16(),)))
        assert expected.wider is not None
        wider = expected.wider()
        assert wider is not None
        kept = [weakref.ref(one.outputs[0].lower) for one in (expected, wider)]
        del expected, wider
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


def test_only_outputs_limit_a_definition(load: Load) -> None:
    """It does not say which parts of its inputs are read."""
    code = "def run(x):\n    return x[:, :2].sum(1, keepdim=True)"
    load(code, {"x": (["rows", "4096"], "float32")}, {"out": (["rows", "1"], "float32")})
    for floor, possible in ((1e-9, True), (10.0, False)):
        made = kernelzoo.implementation("reference/made/reference")
        ceilings = measure.Ceilings(copy=256e6, read=256e6, floor=floor)
        (result,) = measure.race(
            Problem("made", (64, 4096), "float32"), [made], torch.device("cpu"), rounds=3, ceilings=ceilings
        ).values()
        assert bool(result.samples) == possible and result.limit is None, result


def test_one_element_of_a_thousand_may_be_further_off(load: Load) -> None:
    """As of a sum in another order; but not two, and no further than the worst of its row, or of nine of its size."""
    matrix = (["rows", "64"], "bfloat16")
    op = load("def run(x):\n    return x.cumsum(1).flip(1).cumsum(1)", {"x": matrix}, {"out": matrix})
    expected = op.expect(op.arguments((torch.randn(9, 64).bfloat16(),)))
    usual = widest = expected
    while widest.wider is not None and (wider := widest.wider()) is not None:
        usual, widest = widest, wider
    (inner,), (outer,) = usual.outputs, widest.outputs
    places = (outer.upper > inner.upper).nonzero()[:2].tolist()
    for count in (1, 2):
        result = inner.lower.clone()
        for row, column in places[:count]:
            result[row, column] = outer.upper[row, column]
        if count == 1:
            expected.check((result,))
            result[tuple(places[0])] = outer.upper[tuple(places[0])] * 2 + 9
        with pytest.raises(ContractError):
            expected.check((result,))


TENSOR_CORES = """
def narrow(x):
    return x if x.dtype == torch.float64 else ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def run(x, w):
    return torch.relu(narrow(x) @ narrow(w))
"""


def test_a_product_by_tensor_cores_is_decided_beside_a_kink(load: Load) -> None:
    """Of 400 000 elements some lie so near to zero that no nearby input shows their error."""
    shapes = {"x": ["rows", "k"], "w": ["k", "columns"]}
    op = load(
        TENSOR_CORES,
        {name: (shape, "float32") for name, shape in shapes.items()},
        {"out": (["rows", "columns"], "float32")},
        **{name: {"type": "var"} for name in ("rows", "k", "columns")},
    )
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(768, 32, generator=generator), torch.randn(32, 512, generator=generator)
    args = right(op, (x, w))
    wrong = torch.relu(x @ w)
    wrong[7, 3:6] += 0.1
    with pytest.raises(ContractError, match="elements wrong"):
        op.expect(args).check((wrong,))


@pytest.mark.parametrize(("step", "findings"), [(1, 0), (0x55, 0), (10_000_000, 1)])
def test_other_bits_within_the_bounds_are_right(
    load: Load, solved: Callable[..., Any], step: int, findings: int
) -> None:
    """As of atomic additions, whose order differs from launch to launch."""
    load(
        "def run(x):\n    return (x.bfloat16() * 2).float()",
        {"x": (["rows"], "float32")},
        {"out": (["rows"], "float32")},
    )
    made = solved(
        f"""
calls = []
def run(x):
    calls.append(x)
    return ((x * 2).view(torch.int32) + {step} * (len(calls) % 2 == 0)).view(torch.float32)
"""
    )
    (check, *_) = verifying.checks_of(made, torch.device("cpu"), whole=True)
    found = verifying.verify(made, [check], torch.device("cpu"), whole=True, progress=lambda name, known: None)
    assert (found.passed, len(found.findings)) == (1 - findings, findings), found


@pytest.mark.parametrize("value", [1e19, 1e23, 1e38])
def test_where_a_result_overflows_only_infinity_is_right(value: float, load: Load) -> None:
    op = load("def run(x):\n    return x * x", {"x": (["rows"], "float32")}, {"out": (["rows"], "float32")})
    x = torch.full((64,), value)
    op.assert_close(x * x, x)
    with pytest.raises(ContractError):
        op.assert_close(torch.zeros(64), x)


@pytest.mark.parametrize("worst", [False, True])
def test_errors_of_large_tensors_are_pooled_in_pieces(worst: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own, result = torch.rand(2, 40, 1, dtype=torch.float64)
    pieces = zip(own.chunk(2), result.chunk(2), strict=True)
    alone = torch.cat([reference._pool_errors(mine, beside, worst) for mine, beside in pieces])
    assert not torch.equal(reference._pool_errors(own, result, worst), alone)
    monkeypatch.setattr(reference, "_PIECE", 20)
    assert torch.equal(reference._pool_errors(own, result, worst), alone) and bool((alone >= own).all())


def test_errors_are_pooled_among_alike_elements_or_raised_to_the_worst_of_a_row() -> None:
    own, result = torch.zeros(4, 16, dtype=torch.float64), torch.arange(64.0).view(4, 16)
    own[1, 3] = 1
    mean, worst = (reference._pool_errors(own, result, worst) for worst in (False, True))
    assert mean[1, 3] == 1 and mean[1, 4].item() == pytest.approx(1 / 9) and mean[1, 8] == 0
    assert bool((worst[1] == 1).all()) and worst[0, 15] == 1 and not worst[3].any() and own.sum() == 1


def test_the_rounding_of_an_output_is_not_counted_as_the_references_own_error(load: Load) -> None:
    op = load(
        "def run(x):\n    return x * 0.3", {"x": (["n"], "bfloat16")}, {"y": (["n"], "bfloat16")}, n={"type": "var"}
    )
    args = op.arguments((torch.linspace(1, 2, 4096).bfloat16(),), 0, False, {})
    expected, allowed = op.expect(args), []
    while expected is not None and expected.share == 1:
        allowed.append(float(((expected.outputs[0].upper - expected.outputs[0].lower) / 0.3).max()))
        expected = expected.wider() if expected.wider else None
    assert len(allowed) == 4 and allowed[-1] < 12 * torch.finfo(torch.bfloat16).eps  # counted, it would be 15
