"""What is timed is what is checked: kernels that are lazy only while they are timed have no result, or do their work."""

from collections.abc import Callable, Iterator

import adversaries
import pytest
import torch
from adversaries import ADVERSARIES, PROBLEM, SMALL, Adversary
from registered import forget

import kernelzoo
from kernelzoo import measure
from kernelzoo.measure import Measurement, Problem
from kernelzoo.registry import Bind

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")

Race = Callable[..., dict[str, Measurement]]

@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Race]:
    """Races a bind under a throw-away name, on a few sets on the host, beside others."""
    monkeypatch.setattr("kernelzoo.measure.judge.data._MOST_SETS", 32)

    def race(bind: Bind, *others: str, problem: Problem = PROBLEM, **options: object):
        kernelzoo.register("entrant", problem.op, "only")(bind)
        ids = [f"entrant/{problem.op}/only", *others]
        options = {"rounds": 12, **options}
        return measure.race(problem, [kernelzoo.implementation(id) for id in ids], CPU, **options)

    yield race
    forget("entrant")


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_it_has_no_result(adversary: Adversary, race: Race) -> None:
    """Or it looks at its data, all of which has changed, and so does all of its work."""
    result = race(adversary.made(), problem=adversary.problem)["entrant/softmax/only"]
    assert not result.samples or adversary.group == "looks at little", result


@pytest.mark.parametrize("id", ["torch/softmax/eager", "cpu/softmax/auto"])
@pytest.mark.parametrize("cache", ["cold", "hot"])
def test_the_honest_keep_their_results_beside_it(id: str, cache: str, race: Race) -> None:
    """In the rounds in which another is thrown out: late work of that one harms nobody."""
    kernelzoo.get(id.partition("/")[0])
    results = race(adversaries.hands_its_work_to_a_thread(), id, problem=SMALL, cache=cache)
    assert not results["entrant/softmax/only"].samples
    assert len(results[id].samples) == 12, results[id]


def test_what_compares_everything_is_right(race: Race) -> None:
    """It gives the right result for any data, so that its time is its own."""
    result = race(adversaries.compares_everything())["entrant/softmax/only"]
    assert len(result.samples) == 12, result
