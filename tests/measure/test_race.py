"""The race: what is wrong is not timed, what is refused says why, and what is timed has every sample."""

import time
from collections.abc import Callable, Iterator

import pytest
import torch

import kernelzoo
from kernelzoo import measure, ops, registry
from kernelzoo.measure import Problem
from kernelzoo.registry import Bind, Launch

CPU = torch.device("cpu")
PROBLEM = Problem("softmax", (64, 33), "float32")


@pytest.fixture
def entrant() -> Iterator[Callable[[Bind], registry.Implementation]]:
    """Registers a bind under a throw-away name."""

    def enter(bind: Bind) -> registry.Implementation:
        kernelzoo.register("entrant", "softmax", "only")(bind)
        return kernelzoo.implementation("entrant/softmax/only")

    yield enter
    registry._registered.pop(("entrant", "softmax", "only"), None)
    registry._loaded.pop("entrant", None)


def right(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: ops.void(out.copy_(torch.softmax(x, 1)))


def zeros(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: ops.void(out.zero_())


def shifted(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: ops.void(out.copy_(torch.softmax(x, 1).roll(1, 0)))


def nothing(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: None


def once(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Right when bound, and never again: the result must come from the launch."""
    out.copy_(torch.softmax(x, 1))
    return lambda: None


def first_row_unwritten(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: ops.void(out[1:].copy_(torch.softmax(x, 1)[1:]))


def eats_its_input(x: torch.Tensor, out: torch.Tensor) -> Launch:
    def launch() -> None:
        out.copy_(torch.softmax(x, 1))
        x.mul_(2)

    return launch


def raises(x: torch.Tensor, out: torch.Tensor) -> Launch:
    raise ZeroDivisionError("in someone's kernel")


@pytest.mark.parametrize("bind", [zeros, shifted, nothing, once, first_row_unwritten, eats_its_input, raises])
def test_what_is_wrong_is_not_timed(entrant: Callable[[Bind], registry.Implementation], bind: Bind) -> None:
    (result,) = measure.race(PROBLEM, [entrant(bind)], CPU, rounds=2).values()
    assert result.wrong
    assert not result.samples
    assert not result.refused


def test_what_goes_wrong_while_timed_is_not_reported(entrant: Callable[[Bind], registry.Implementation]) -> None:
    """Right when it is checked alone, wrong after some launches: a workspace that is not reset, say."""

    def wears_out(x: torch.Tensor, out: torch.Tensor) -> Launch:
        launches = 0

        def launch() -> None:
            nonlocal launches
            launches += 1
            out.copy_(torch.softmax(x, 1)) if launches < 4 else out.zero_()

        return launch

    (result,) = measure.race(PROBLEM, [entrant(wears_out)], CPU, rounds=5).values()
    assert "wrong as it was timed" in result.wrong
    assert not result.samples


def test_what_is_right_is_timed(entrant: Callable[[Bind], registry.Implementation]) -> None:
    """And in turns with the others: the same rounds for each, times that are those of a launch."""

    def slow(x: torch.Tensor, out: torch.Tensor) -> Launch:
        launch = right(x, out)

        def slowly() -> None:
            time.sleep(2e-3)
            launch()

        return slowly

    implementations = [kernelzoo.implementation("torch/softmax/eager"), entrant(slow)]
    results = measure.race(PROBLEM, implementations, CPU, rounds=5)
    assert list(results) == ["torch/softmax/eager", "entrant/softmax/only"]
    for result in results.values():
        assert (result.wrong, result.refused, len(result.samples)) == ("", "", 5)
        assert (result.clock, result.submit) == ("wall", None)
        assert result.first_call is not None and result.first_call > 0
    slowed = results["entrant/softmax/only"]
    assert slowed.median > 2e-3
    assert slowed.bytes == 2 * 64 * 33 * 4
    assert slowed.gb_per_s == pytest.approx(slowed.bytes / slowed.median / 1e9)


def test_refusals_say_why(entrant: Callable[[Bind], registry.Implementation]) -> None:
    def picky(x: torch.Tensor, out: torch.Tensor) -> Launch:
        raise kernelzoo.UnsupportedProblemError("entrant/softmax/only", "it never can")

    results = measure.race(PROBLEM, [entrant(picky), kernelzoo.implementation("torch/softmax/eager")], CPU, rounds=2)
    assert "it never can" in results["entrant/softmax/only"].refused
    assert results["torch/softmax/eager"].samples


def test_an_emulator_is_never_timed(
    entrant: Callable[[Bind], registry.Implementation], monkeypatch: pytest.MonkeyPatch
) -> None:
    implementation = entrant(right)
    monkeypatch.setattr(kernelzoo.get("entrant"), "emulator", "an interpreter")
    (result,) = measure.race(PROBLEM, [implementation], CPU, rounds=2).values()
    assert "an interpreter is running" in result.refused
    assert not result.samples


def test_problem_sets() -> None:
    for name in measure.SETS:
        for problem in measure.problems(name):
            assert len(set(measure.problems(name))) == len(measure.problems(name))
            assert problem.id.startswith(problem.op)
    sweep = {problem.shape for problem in measure.problems("sweep", ("softmax",), ("float32",))}
    assert {(4096, n) for n in range(256, 12673, 128)} | {(1823, 781), (16, 262144)} == sweep
    with pytest.raises(ValueError, match="no shape set 'huge'; known: full, quick, sweep"):
        measure.problems("huge")
    with pytest.raises(LookupError, match="no softmax dtype 'int8'"):
        measure.problems("quick", ("softmax",), ("int8",))


def test_environment_names_the_machine() -> None:
    assert measure.device_name("cpu")
    versions = measure.versions("cpu")
    assert versions["torch"] == torch.__version__
    assert int(versions["threads"]) >= 1
