"""What is timed is what is checked: kernels that are lazy only while they are timed have no result."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import adversaries
import made_up
import pytest
import suite
import torch
from adversaries import ADVERSARIES, PROBLEM, SMALL, Adversary
from layers import STATE, layer_of
from registered import forget

import kernelzoo
from kernelzoo import measure
from kernelzoo.check.bits import bits
from kernelzoo.errors import ContractError, DeviceLostError
from kernelzoo.measure import Measurement, Problem
from kernelzoo.measure.clocks import WallClock
from kernelzoo.measure.gate import Gate
from kernelzoo.registry import Bind, Launch
from kernelzoo.report import markers

CPU = torch.device("cpu")
STIRRED = "after a change between two launches"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

Race = Callable[..., dict[str, Measurement]]


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Race]:
    """Races a bind under a throw-away name, on a few sets on the host, beside others."""
    monkeypatch.setattr(WallClock, "sets_bytes", 32 * PROBLEM.bytes)
    run = WallClock._run

    def quick(clock: WallClock, launches: list[Launch], *how: object) -> float:
        """However busy the host is, a sample holds 5 launches on as many sets, or 50 on one."""
        return min(run(clock, launches, *how), 2e-4 if len(launches) > 1 else 2e-5)

    monkeypatch.setattr(WallClock, "_run", quick)

    def race(bind: Bind, *others: str, problem: Problem = PROBLEM, **options: object):
        kernelzoo.register("entrant", problem.op, "only")(bind)
        ids = [f"entrant/{problem.op}/only", *others]
        options = {"rounds": 16, **options}
        return measure.race(problem, [kernelzoo.implementation(id) for id in ids], CPU, **options)

    yield race
    forget("entrant")


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_it_has_no_result(adversary: Adversary, race: Race) -> None:
    if adversary.layer == STATE:  # nothing can be measured there any more: the guard ends the process
        with pytest.raises(DeviceLostError) as error:
            race(adversary.made(), problem=adversary.problem, cache=adversary.cache)
        assert layer_of(error.value.reason) == STATE
        return
    result = race(adversary.made(), problem=adversary.problem, cache=adversary.cache)["entrant/softmax/only"]
    assert not result.samples and layer_of(result.wrong) == adversary.layer, result


def test_the_page_is_the_register() -> None:
    """``python tests/described/suite.py`` writes its tables."""
    pytest.importorskip("triton")
    assert markers.insert(suite.PAGE.read_text(encoding="utf-8"), suite.blocks(), suite.PAGE.name)[1] == []
    assert len(suite.rows()) == len(set(suite.rows())) > 150
    layers = {row.layer for row in suite.rows()}
    assert all(layer in suite.PAGE.read_text(encoding="utf-8").split("<!--")[0] for layer in layers - {"not run yet"})


@GPU
@pytest.mark.parametrize("adversary", suite.racing(), ids=str)
def test_it_has_no_result_on_cuda(adversary: Adversary, capsys: pytest.CaptureFixture[str]) -> None:
    """Each in a process of its own, since some break the device for all that comes after them."""
    layer, reason = suite.raced("cuda", adversary.id, adversary.problem, adversary.cache)
    with capsys.disabled():
        print(f"\n{suite.line(adversary, layer, reason)}", end="")
    assert layer not in (suite.ACCEPTED, suite.REFUSED)


@GPU
@pytest.mark.parametrize("control", suite.controls("cuda"), ids=str)
def test_the_honest_are_accepted_on_cuda(control: Adversary) -> None:
    """Of each language."""
    assert suite.raced("cuda", control.id, control.problem, control.cache) == (suite.ACCEPTED, "")


def test_a_process_of_its_own_rejects_and_accepts() -> None:
    """What is raced on a GPU, here on the host. On a busy machine a sample may be one launch: it takes one that does
    nothing in each of them, and as many rounds as warm it."""
    (lazy,) = [one for one in ADVERSARIES if one.name == "wears out"]
    assert suite.raced("cpu", lazy.id, SMALL, "hot", 2 * adversaries.WARM)[0] == adversaries.STIRRED
    (control, *_) = suite.controls("cpu")
    assert suite.raced("cpu", control.id, SMALL, "hot") == (suite.ACCEPTED, "")


@pytest.mark.parametrize("id", ["torch/softmax/eager", "torch/softmax/naive", "cpu/softmax/auto"])
@pytest.mark.parametrize("cache", ["cold", "hot"])
def test_the_honest_keep_their_results_beside_it(id: str, cache: str, race: Race) -> None:
    """Each language's, in the rounds in which another is thrown out: late work of that one harms nobody."""
    kernelzoo.get(id.partition("/")[0])
    results = race(adversaries.hands_its_work_to_a_thread(), id, problem=SMALL, cache=cache)
    assert results["entrant/softmax/only"].wrong
    assert len(results[id].samples) == 16, results[id]


def test_what_compares_everything_is_right(race: Race) -> None:
    """It gives the right result for any data, so that its time is its own."""
    result = race(adversaries.compares_everything())["entrant/softmax/only"]
    assert len(result.samples) == 16, result


@pytest.mark.parametrize(
    "problem",
    [
        Problem("softmax", (64, 1), "float16"),
        Problem("softmax", (33,), "float32"),
        Problem("softmax", (3, 70, 5), "bfloat16", 1),
        Problem("softmax", (1, 200_003), "float64"),  # longer than what is drawn anew in each turn
        Problem("softmax", (), "float32"),
        Problem("min", (40, 33), "bool"),
        Problem("min", (40, 33), "uint8", 0),
        Problem("min", (3, 40, 3), "int64", 1),
        Problem("min", (3000, 2), "bfloat16"),
        Problem("rms_norm", (40, 33), "float32"),
        Problem("pick", (5, 7), "int32", sizes=(("N", 3),)),
        Problem("pick", (5, 7), "float32", sizes=(("N", 3),)),
        Problem("row_sum", (40, 33), "float32"),
    ],
    ids=lambda problem: f"{problem.op}-{problem.dtype}-{problem.shape}",
)
def test_right_results_of_any_operation_pass(problem: Problem) -> None:
    """Over many turns, each of which stirs something else; a probe's turn too."""
    with made_up.declare():
        sets = measure.draw_sets(problem, CPU, count=3)
        gate = Gate(problem, sets)

        def launches() -> None:
            for inputs, outs in sets:
                for out, result in zip(outs, problem.operation.reference(problem.arguments(inputs)), strict=True):
                    out.copy_(result)

        launches()
        probe = gate.stirring.probe()
        changed = 0
        for _ in range(60):
            before = [x.clone() for (x, *_), _ in sets]
            gate.stirring.before([0, 1, 2], probe)
            launches()
            if probe:
                probe.before()
                launches()
                probe.after()
            gate.stirring.after()
            changed += any(not torch.equal(bits(x), bits(y)) for ((y, *_), _), x in zip(sets, before, strict=True))
        assert changed > 10 or not sets[0][0][0].numel()
        gate.stirring.hold()
        for batch in gate._batches:
            batch.check()


@pytest.mark.parametrize("left_out", range(5))
def test_every_launch_counts(left_out: int) -> None:
    """Whichever of the sets is not launched on is missed at once, and whichever launch a probe meets."""
    problem = Problem("softmax", (64, 33), "float32")
    sets = measure.draw_sets(problem, CPU, count=5)
    gate = Gate(problem, sets)
    launches = [partial(torch.softmax, x, 1, out=out) for (x,), (out,) in sets]
    for number in range(5):
        launches[number]()
    missed = 0
    for _ in range(20):
        gate.stirring.before(range(5))
        for number in {*range(5)} - {left_out}:
            launches[number]()
        with contextlib.suppress(ContractError):
            gate.stirring.after()
            missed += 1
        launches[left_out]()
    assert missed < 10
    probe = gate.stirring.probe()
    for _ in range(5):
        gate.stirring.before([0], probe)
        for launch in launches:
            launch()
        probe.before()
        probe.after()
        launches[probe.number]()
        with pytest.raises(ContractError, match=STIRRED):
            gate.stirring.after()
