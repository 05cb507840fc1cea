"""What is timed is what is checked: a kernel that is lazy while it is timed has no result, or does its work."""

from collections.abc import Callable
from typing import Any

import adversaries
import made_up
import pytest
import torch
from adversaries import ADVERSARIES, PROBLEM, SMALL, Adversary

import kernelzoo
from kernelzoo import measure
from kernelzoo.check.bits import bits
from kernelzoo.errors import ContractError
from kernelzoo.measure import Measurement, Problem
from kernelzoo.measure.judge.doubts import TimeChecks
from kernelzoo.measure.judge.mutation import DataMutator
from kernelzoo.registry import Bind, Implementation

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")

Race = Callable[..., dict[str, Measurement]]


@pytest.fixture
def race(enter: Callable[[str, Bind], Implementation], monkeypatch: pytest.MonkeyPatch) -> Race:
    """Races a bind under a throw-away name, on a few sets on the host, beside others."""
    monkeypatch.setattr("kernelzoo.measure.judge.data._MOST_SETS", 32)

    def race(bind: Bind, *others: str, problem: Problem = PROBLEM, **options: object):
        entrants = [enter(problem.op, bind), *map(kernelzoo.implementation, others)]
        return measure.race(problem, entrants, CPU, **{"rounds": 12, **options})

    return race


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_it_has_no_result(adversary: Adversary, race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it looks at its data, all of which has changed, and so does all of its work in each sample."""
    # Turns in a row, whose time is no sample, are of the same data.
    monkeypatch.setattr(TimeChecks, "find_false_time", lambda *given: "")
    made: Any = adversary.made()
    result = race(made, problem=adversary.problem)["entrant/softmax/only"]
    assert not result.samples or made.skipped == 0, (result, made.skipped)


@pytest.mark.parametrize("id", ["torch/softmax/eager", "cpu/softmax/auto"])
@pytest.mark.parametrize("cache", ["cold", "hot"])
def test_the_honest_keep_their_results_beside_it(id: str, cache: str, race: Race) -> None:
    """In the rounds in which another is thrown out: late work of that one harms nobody."""
    kernelzoo.get(id.partition("/")[0])
    results = race(adversaries.Kernel(adversaries.writes_late), id, problem=SMALL, cache=cache)
    assert not results["entrant/softmax/only"].samples
    assert len(results[id].samples) == 12, results[id]


def test_what_compares_everything_is_right(race: Race) -> None:
    """It gives the right result for any data, so that its time is its own."""
    result = race(adversaries.compares_everything())["entrant/softmax/only"]
    assert len(result.samples) == 12, result


@pytest.mark.parametrize(
    "problem",
    [
        Problem("softmax", (64, 1), "float16"),
        Problem("softmax", (33,), "float32"),
        Problem("softmax", (3, 70, 5), "bfloat16", 1),
        Problem("softmax", (1, 200_003), "float64"),  # longer than what is checked after each turn
        Problem("softmax", (), "float32"),
        Problem("min", (40, 33), "bool"),
        Problem("min", (40, 33), "uint8", 0),
        Problem("min", (3, 40, 3), "int64", 1),
        Problem("min", (3000, 2), "bfloat16"),
        Problem("softmax_backward", (40, 33), "float32"),
        Problem("min_backward", (3, 40, 3), "bfloat16", 1),
        Problem("own_norm", (40, 33), "float32"),
        Problem("pick", (5, 7), "int32", sizes=(("N", 3),)),
        Problem("pick", (5, 7), "float32", sizes=(("N", 3),)),
        Problem("row_sum", (40, 33), "float32"),
    ],
    ids=lambda problem: f"{problem.op}-{problem.dtype}-{problem.shape}",
)
def test_right_results_of_any_operation_pass(problem: Problem) -> None:
    """Over many turns, each of which writes other inputs; a launch that is left out, or does less, is found."""
    with made_up.declare():
        sets = measure.TensorSets(problem, 3, CPU)
        mutation = DataMutator(sets, 7)

        def launch(number: int) -> None:
            inputs, outs = sets[number]
            for out, result in zip(outs, problem.operation.reference(problem.arguments(inputs)), strict=True):
                out.copy_(result)

        changed = 0
        for _ in range(12):
            before = sets[0][0][0].clone()
            mutation.write_sets([0, 1, 2])
            changed += not torch.equal(bits(before), bits(sets[0][0][0]))
            for number in range(3):
                launch(number)
            mutation.check_sets([0, 1, 2], whole_sets=(1,))
        assert changed > 6 or sets.inputs[0].elements < 2
        mutation.check_guards()
        if sets.outs[0].dtype.is_floating_point:
            mutation.write_sets([0, 1, 2])
            launch(0)
            launch(2)
            with pytest.raises(ContractError, match="1 of 3 launches did not write"):
                mutation.check_sets([0, 1, 2])
