"""The race: what is wrong is not timed, what is refused says why, and what is timed has every sample."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from known_bad import all_but_the_last_element, changes_its_input, nothing, shifted_by_a_row, works_in_the_bind, zeros

import kernelzoo
from kernelzoo import measure, registry
from kernelzoo.errors import ContractError
from kernelzoo.launch import void
from kernelzoo.measure import Problem, record
from kernelzoo.measure.ceilings import make_copy_launches
from kernelzoo.measure.clocks import DeviceClock
from kernelzoo.measure.graph_nodes import Nodes
from kernelzoo.measure.judge.data import RaceData
from kernelzoo.measure.judge.mutation import DataMutator
from kernelzoo.registry import Bind, Launch

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
PROBLEM = Problem("softmax", (64, 33), "float32")
DTYPES = (torch.float32, torch.bfloat16)


def right(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(torch.softmax(x, 1)))


def raises(x: torch.Tensor, out: torch.Tensor) -> Launch:
    raise ZeroDivisionError("in someone's kernel")


@pytest.mark.parametrize(
    "bind", [zeros, shifted_by_a_row, nothing, works_in_the_bind, all_but_the_last_element, changes_its_input]
)
def test_what_is_wrong_is_not_timed(entrant: Callable[[Bind], registry.Implementation], bind: Bind) -> None:
    (result,) = measure.race(PROBLEM, [entrant(bind)], CPU, rounds=2, cache="hot").values()
    assert result.wrong
    assert not result.samples
    assert not result.refused


def test_what_raises_costs_its_own_row(entrant: Callable[[Bind], registry.Implementation]) -> None:
    good = kernelzoo.implementation("torch/softmax/eager")
    results = measure.race(PROBLEM, [entrant(raises), good], CPU, rounds=2, cache="hot")
    assert results["entrant/softmax/only"].failed == "raised ZeroDivisionError: in someone's kernel"
    assert not results["entrant/softmax/only"].samples
    assert len(results[good.id].samples) == 2


def refuses_at_once(x: torch.Tensor, out: torch.Tensor) -> Launch:
    raise AssertionError("not divisible by 4")


def refuses_later(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(refuses_at_once(x, out))


@pytest.mark.parametrize("bind", [refuses_at_once, refuses_later])
def test_an_assertion_of_a_kernel_s_own_is_no_wrong_result(
    entrant: Callable[[Bind], registry.Implementation], bind: Bind
) -> None:
    """A refusal in its words, say: the gate has found nothing."""
    (result,) = measure.race(PROBLEM, [entrant(bind)], CPU, rounds=2, cache="hot").values()
    assert result.failed == "raised RuntimeError: an assertion of its own failed: not divisible by 4"
    assert not result.wrong


def drops_nan(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(torch.softmax(x.nan_to_num(-80), 1)))


def drops_nan_and_the_last_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out[:-1].copy_(torch.softmax(x[:-1].nan_to_num(-80), 1)))


def drops_nan_and_eats_its_input(x: torch.Tensor, out: torch.Tensor) -> Launch:
    def launch() -> None:
        out.copy_(torch.softmax(x.nan_to_num_(-80), 1))
        x.mul_(2)

    return launch


def drops_nan_and_runs_over(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Writes the element behind its output, wherever the memory goes on there."""

    def launch() -> None:
        out.copy_(torch.softmax(x.nan_to_num(-80), 1))
        end = out.storage_offset() + out.numel()
        if end * out.element_size() < out.untyped_storage().nbytes():
            out.as_strided((1,), (1,), end).fill_(0.5)

    return launch


def drops_nan_and_looks_aside(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One element changes all rows."""
    return lambda: void(out.copy_(torch.softmax(x.nan_to_num(-80), 1) + 1e-3 * (x.amax() == 20)))


def test_what_is_wrong_on_special_values_is_timed_where_it_is_let_off(
    entrant: Callable[[Bind], registry.Implementation],
) -> None:
    implementation = entrant(drops_nan)
    (result,) = measure.race(PROBLEM, [implementation], CPU, rounds=2, cache="hot").values()
    assert result.wrong and not result.samples and not result.breaks
    (result,) = measure.race(PROBLEM, [implementation], CPU, rounds=2, cache="hot", waive=[implementation.id]).values()
    assert len(result.samples) == 2 and not result.wrong
    assert "in rows of" in result.breaks and "NaN" in result.breaks and result.flags[0] == "breaks the contract"
    good = kernelzoo.implementation("torch/softmax/eager")
    (result,) = measure.race(PROBLEM, [good], CPU, rounds=2, cache="hot", waive=[good.id]).values()
    assert len(result.samples) == 2 and not result.breaks and "breaks the contract" not in result.flags


@pytest.mark.parametrize(
    "bind",
    [
        *(zeros, nothing, works_in_the_bind, drops_nan_and_the_last_row, drops_nan_and_eats_its_input),
        *(drops_nan_and_runs_over, drops_nan_and_looks_aside),
    ],
)
def test_nobody_is_let_off_what_is_no_special_value(
    entrant: Callable[[Bind], registry.Implementation], bind: Bind
) -> None:
    implementation = entrant(bind)
    (result,) = measure.race(PROBLEM, [implementation], CPU, rounds=2, cache="hot", waive=[implementation.id]).values()
    assert result.wrong and not result.samples


@pytest.mark.parametrize("waived", [False, True])
def test_what_goes_wrong_while_timed_is_not_reported(
    waived: bool, entrant: Callable[[Bind], registry.Implementation]
) -> None:
    """Right when it is checked alone, wrong after some launches: a workspace that is not reset, say."""
    timed = Counter[str]()

    def wears_out(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            given = x.nan_to_num(-80) if waived else x
            out.copy_(torch.softmax(given, 1) * (1 if timed["time"] < 3 else 2))

        return launch

    implementation = entrant(wears_out)
    told = {"progress": lambda stage, id: timed.update([stage]), "waive": [implementation.id] * waived}
    (result,) = measure.race(PROBLEM, [implementation], CPU, rounds=15, cache="hot", **told).values()
    assert result.wrong.startswith("right when checked alone, wrong when timed") and not result.samples


def test_what_is_right_is_timed(entrant: Callable[[Bind], registry.Implementation]) -> None:
    """And in turns with the others: the same rounds for each, times that are those of a launch."""

    def slow(x: torch.Tensor, out: torch.Tensor) -> Launch:
        launch = right(x, out)

        def slowly() -> None:
            time.sleep(2e-3)
            launch()

        return slowly

    implementations = [kernelzoo.implementation("torch/softmax/eager"), entrant(slow)]
    results = measure.race(PROBLEM, implementations, CPU, rounds=5, cache="hot")
    assert list(results) == ["torch/softmax/eager", "entrant/softmax/only"]
    for result in results.values():
        assert (result.wrong, result.refused, len(result.samples)) == ("", "", 5)
        assert (result.clock, result.submit) == ("wall", None)
        assert result.first_call is not None and result.first_call > 0
    slowed = results["entrant/softmax/only"]
    assert slowed.median > 2e-3 and slowed.form == "entrant/softmax/only"
    assert slowed.bytes == 2 * 64 * 33 * 4
    assert slowed.gb_per_s == pytest.approx(slowed.bytes / slowed.median / 1e9)


def test_hot_and_cold_are_told_apart(entrant: Callable[[Bind], registry.Implementation]) -> None:
    """Cold rotates through sets past the cache, hot launches on one set; each says so, and only cold has a limit."""
    memory: dict[str, set[int]] = {"cold": set(), "hot": set()}

    for cache in ("cold", "hot"):

        def noting(x: torch.Tensor, out: torch.Tensor, seen: set[int] = memory[cache]) -> Launch:
            def launch() -> None:
                seen.add(x.data_ptr())
                out.copy_(torch.softmax(x.squeeze(2), 1).unsqueeze(2))

            return launch

        ceilings = measure.Ceilings(1e30, 1e30, 1e-9) if cache == "cold" else measure.Ceilings(1.0, 1.0, 9.0)
        problem = Problem("softmax", (1024, 1024), "float32")
        raced = measure.race(problem, [entrant(noting)], CPU, rounds=2, cache=cache, ceilings=ceilings)
        (result,) = raced.values()
        assert result.samples, result
        assert result.cache == cache and ("hot" in result.clock_detail) == (cache == "hot")
        assert (result.fraction_of_limit is None) == (cache == "hot")
    assert len(memory["cold"]) * 2 * 1024 * 1024 * 4 >= 2**27 > len(memory["hot"]) * 2 * 1024 * 1024 * 4


def test_beyond_the_limit_is_no_result() -> None:
    """A time that the device's own ceilings don't allow is thrown out; one within them keeps its share."""
    eager = kernelzoo.implementation("torch/softmax/eager")
    for floor, possible in ((10.0, False), (1e-9, True)):
        ceilings = measure.Ceilings(copy=1e15, read=1e15, floor=floor)
        (result,) = measure.race(PROBLEM, [eager], CPU, rounds=3, ceilings=ceilings).values()
        assert bool(result.samples) == possible
        assert ("faster than this device" in result.wrong) != possible
        assert (result.details.get("kind") == "false time") != possible


@pytest.mark.parametrize("from_launch", [0, 60])
def test_nobody_is_blamed_for_what_another_writes(
    from_launch: int, entrant: Callable[[Bind], registry.Implementation]
) -> None:
    """Outside its output: at once, with an error beside; or later, when both are timed."""
    count = itertools.count()

    def writes_beside(x: torch.Tensor, out: torch.Tensor) -> Launch:
        past = out.as_strided((1,), (1,), out.storage_offset() + out.numel())

        def launch() -> Any:
            out.copy_(torch.softmax(x.squeeze(2), 1).unsqueeze(2))
            if next(count) >= from_launch:
                past.fill_(5)
                return None if from_launch else 5
            return None

        return launch

    ids = [entrant(writes_beside), kernelzoo.implementation("torch/softmax/naive")]
    bad, good = measure.race(PROBLEM, ids, CPU, rounds=3).values()
    assert ("outside its output" if from_launch else "returns None") in bad.wrong
    assert good.samples, good


def test_a_copy_of_the_same_data_takes_its_turn() -> None:
    """Where as much is written as read; it is never the operation itself, whatever the dtype and length."""
    for op, dtype, copied in (("softmax", "float32", True), ("softmax", "bfloat16", True), ("min", "float32", False)):
        eager = kernelzoo.implementation(f"torch/{op}/eager")
        (result,) = measure.race(measure.Problem(op, (2049, 257), dtype), [eager], CPU, rounds=3).values()
        assert result.samples and (result.copy is not None) == copied
    sets = [(torch.tensor([[-1.0, 2.0, -3.0]], dtype=dtype), torch.zeros(1, 3, dtype=dtype)) for dtype in DTYPES]
    for launch, (x, out) in zip(make_copy_launches(sets), sets, strict=True):
        launch()
        assert torch.equal(out, x)


def test_the_cache_is_settled_between_the_change_of_inputs_and_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel asked the cache to keep is forgotten before each turn, a copy's too; nothing else comes between."""
    steps = []
    watched = {"prepare_caches": RaceData, "write_sets": DataMutator}
    watched |= dict.fromkeys(("run_timed_turn", "prepare_turn"), measure.LocalRunner)
    for name, of in watched.items():
        true = getattr(of, name)

        def noting(self, *given, true=true, name=name, **more):
            steps.append(name)
            return true(self, *given, **more)

        monkeypatch.setattr(of, name, noting)
    measure.race(PROBLEM, [kernelzoo.implementation(f"torch/softmax/{v}") for v in ("eager", "naive")], CPU, rounds=4)
    turns = [i for i, step in enumerate(steps) if step == "run_timed_turn" and steps[i - 1] != step]
    assert len(turns) > 15
    assert all(steps[i - 3 : i] == ["prepare_turn", "write_sets", "prepare_caches"] for i in turns)


def test_a_device_whose_cache_keeps_nothing_is_asked_once() -> None:
    data = RaceData(PROBLEM, CPU, "hot", shared=False)
    answers = [0, 801]
    data._reset = lambda: answers.pop(0)
    for _ in range(4):
        data.prepare_caches()
    assert not answers
    data._reset = lambda: 719
    with pytest.raises(RuntimeError, match="CUDA error 719"):
        data.prepare_caches()


def test_launches_that_are_in_no_graph_have_no_time() -> None:
    """They ran elsewhere, while it was captured: replays would take no time at all."""
    clock = DeviceClock.__new__(DeviceClock)
    clock._counts, clock._capture = True, lambda work: (None, Nodes())  # type: ignore[method-assign]
    with pytest.raises(ContractError, match="no kernel"):
        clock.prepare_turn([lambda: None])
    clock._capture = lambda work: (None, Nodes({(0, 1): 3}))  # type: ignore[method-assign]
    with pytest.raises(ContractError, match="its 2 launches in a CUDA graph differ"):
        clock.prepare_turn([lambda: None] * 2)


def test_flags() -> None:
    eager = kernelzoo.implementation("torch/softmax/eager")
    result = measure.Measurement(eager, PROBLEM, "device", "", samples=[20e-6], submit=30e-6, cupti=25e-6)
    assert result.flags == ("host-bound", "clocks disagree")
    result.submit, result.cupti = 10e-6, 20.1e-6
    assert result.flags == ()


@pytest.mark.parametrize("timed", ["device", "call"])
def test_refusals_say_why(timed: str, entrant: Callable[[Bind], registry.Implementation]) -> None:
    def picky(x: torch.Tensor, out: torch.Tensor) -> Launch:
        raise kernelzoo.UnsupportedProblemError("entrant/softmax/only", "it never can")

    entrants = [entrant(picky), kernelzoo.implementation("torch/softmax/eager")]
    results = measure.race(PROBLEM, entrants, CPU, rounds=2, cache="hot", timed=timed)
    assert "it never can" in results["entrant/softmax/only"].refused
    assert results["torch/softmax/eager"].samples


def test_an_emulator_is_never_timed(
    entrant: Callable[[Bind], registry.Implementation], monkeypatch: pytest.MonkeyPatch
) -> None:
    implementation = entrant(right)
    monkeypatch.setattr(kernelzoo.get("entrant"), "emulator", "an interpreter")
    (result,) = measure.race(PROBLEM, [implementation], CPU, rounds=2, cache="hot").values()
    assert "an interpreter runs here" in result.refused
    assert not result.samples


def test_problem_sets() -> None:
    for name in measure.SETS:
        found = measure.problems(name)
        assert len({problem.id for problem in found}) == len(found)
    columns = [problem.shape[1] for problem in measure.problems("map", ("min",), ("float32",))]
    assert 0.45 < sum(n % 2 for n in columns) / len(columns) < 0.55  # as many odd lengths as even ones
    sweep = {problem.shape for problem in measure.problems("sweep", ("softmax",), ("float32",))}
    assert {(4096, n) for n in range(256, 12673, 128)} | {(1823, 781), (16, 262144)} == sweep
    known = "axes, full, hidden, host, map, odd, people, quick, random:COUNT, sweep, vocabulary"
    with pytest.raises(ValueError, match=f"no shape set 'huge'; known: {known}"):
        measure.problems("huge")
    with pytest.raises(LookupError, match="no softmax dtype 'int8'"):
        measure.problems("quick", ("softmax",), ("int8",))


def test_environment_names_the_machine() -> None:
    assert measure.device_name("cpu")
    versions = measure.versions("cpu")
    assert versions["torch"] == torch.__version__
    assert int(versions["threads"]) >= 1


def test_results_say_which_form_ran(
    entrant: Callable[[Bind], registry.Implementation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form is asked for with the canonical tensors, without a launch, and once for each problem."""
    asked = []

    def form(self: registry.Implementation, x: torch.Tensor, out: torch.Tensor) -> str:
        asked.append((tuple(x.shape), tuple(out.shape)))
        return f"{self.backend}/{self.op}/{'tall' if x.size(0) > x.size(1) else 'wide'}"

    monkeypatch.setattr(registry.Implementation, "form", form)
    for shape, name in (((64, 33), "tall"), ((33, 64), "wide")):
        problem = Problem("softmax", shape, "float32")
        (result,) = measure.race(problem, [entrant(right)], CPU, rounds=2, cache="hot").values()
        assert result.form == f"entrant/softmax/{name}"
        assert record.extra_info(result, "cpu", None, "a test")["form"] == result.form
    assert asked == [((64, 33, 1), (64, 33, 1)), ((33, 64, 1), (33, 64, 1))]
