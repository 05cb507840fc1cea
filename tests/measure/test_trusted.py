"""What a module replaces to be believed is named, and its claims are compared with the guard's own clock."""

import builtins
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from layers import CLOCK, HARNESS, layer_of
from registered import forget

import kernelzoo
from kernelzoo import measure
from kernelzoo.measure import Problem, buffers
from kernelzoo.measure.clocks import WallClock
from kernelzoo.measure.gate import Gate
from kernelzoo.measure.guard import Guard, _doubted
from kernelzoo.measure.sample_audit import Turns
from kernelzoo.measure.trusted import Trusted
from kernelzoo.measure.worker_process import GuardError
from kernelzoo.operations import OPERATIONS
from kernelzoo.operations.meaning import Operation
from kernelzoo.registry import Launch

PROBLEM = Problem("softmax", (64, 33), "float32")


def lie(*given: object, **more: object) -> float:
    return 1e-9


def recoded() -> None:
    Gate.check_timed.__code__ = (lambda self, sampler, *, special=True: None).__code__


REPLACED: dict[str, tuple[Callable[[], object], str]] = {
    "clock": (lambda: setattr(time, "perf_counter", lie), "time.perf_counter"),
    "the clock's": (lambda: setattr(measure.clocks, "perf_counter", lie), "kernelzoo.measure.clocks.perf_counter"),
    "the clock's run": (lambda: setattr(WallClock, "_run", lie), "kernelzoo.measure.clocks.WallClock._run"),
    "torch's function": (lambda: setattr(torch, "equal", lie), "torch.equal"),
    "torch's method": (lambda: setattr(torch.Tensor, "item", lie), "torch.Tensor.item"),
    "random numbers": (lambda: setattr(torch, "randn", lie), "torch.randn"),
    "the gate": (lambda: setattr(Gate, "admit", lie), "kernelzoo.measure.gate.Gate.admit"),
    "the gate's code": (recoded, "the code of kernelzoo.measure.gate.Gate.check_timed"),
    "a helper": (lambda: setattr(buffers, "same", lie), "kernelzoo.measure.buffers.same"),
    "the reference": (lambda: setattr(Operation, "expect", lie), "kernelzoo.operations.meaning.Operation.expect"),
    "a bound": (lambda: setattr(buffers, "GUARD", 0), "kernelzoo.measure.buffers.GUARD"),
    "the recorder": (lambda: setattr(measure.record, "entry", lie), "kernelzoo.measure.record.entry"),
    "a built-in": (lambda: setattr(builtins, "all", lie), "builtins.all"),
    "a built-in, hidden": (lambda: setattr(buffers, "bool", lie), "kernelzoo.measure.buffers.bool"),
    "an inherited method": (lambda: setattr(Gate, "__getattribute__", object.__getattribute__), "__getattribute__"),
    "the answer's words": (lambda: setattr(json, "dumps", lie), "json.dumps"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_is_named_and_put_back(name: str) -> None:
    act, words = REPLACED[name]
    trusted = Trusted()
    act()
    found = trusted.replaced()
    assert [one for one in found if one.endswith(words)], found
    assert trusted.replaced() == []


def test_an_operation_s_own_functions_are_watched() -> None:
    operation = OPERATIONS["softmax"]
    trusted, honest = Trusted(), operation.hooks["reference"]
    operation.hooks["reference"] = lie
    operation.expect = lie
    assert trusted.replaced() == ["softmax's rules.reference", "the operation softmax.expect"]
    assert operation.hooks["reference"] is honest and "expect" not in vars(operation)


def test_loading_what_a_kernel_needs_replaces_nothing() -> None:
    trusted = Trusted()
    for id in ("cpu/softmax/auto", "torch/softmax/auto", "torch/min/compile"):
        implementation = kernelzoo.implementation(id)
        x = torch.randn(4, 5)
        kernelzoo.get(implementation.backend)
        getattr(kernelzoo.get(implementation.backend), implementation.op)(x, variant=implementation.variant)
    assert trusted.replaced() == []


@pytest.mark.parametrize("name", REPLACED)
def test_it_costs_a_race_its_row_alone(name: str) -> None:
    """Replaced while it is timed; the others are measured by what was there before."""
    act, words = REPLACED[name]
    turn = list[str]()

    def liar(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if turn:
                turn.clear()
                act()

        return launch

    def began(id: str, sample: float | None, launches: int) -> None:
        turn[:] = [id] if id == ids[0] and sample is None else []

    before = Trusted()
    kernelzoo.register("entrant", "softmax", "only")(liar)
    ids = ("entrant/softmax/only", "torch/softmax/eager")
    try:
        entrants = [kernelzoo.implementation(id) for id in ids]
        results = measure.race(PROBLEM, entrants, torch.device("cpu"), rounds=3, cache="hot", turned=began)
    finally:
        forget("entrant")
    wrong = results[ids[0]].wrong
    assert layer_of(wrong) == HARNESS and words in wrong and not results[ids[0]].samples
    assert wrong.startswith("while it was timed, it replaced ")
    assert len(results[ids[1]].samples) == 3 and results[ids[1]].median > 1e-6
    assert before.replaced() == []


def write(path: Path, text: str) -> str:
    path.write_text(f"import kernelzoo, os, time, torch\n{text}\n")
    return str(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time.perf_counter = lambda: 0.0", "replaced time.perf_counter"),
        ("import sys; sys.setprofile(lambda *given: None)", "left a profile hook behind"),
    ],
)
def test_a_file_that_replaces_what_measures_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(GuardError, match=f"kernels.py: {words}.*; a file of kernels must not change the process"):
        Guard("cpu", [write(tmp_path / "kernels.py", text)])


REAL = """
torch.set_float32_matmul_precision("high")  # a setting, which is a user's to choose

@kernelzoo.register("mine", "softmax", "honest")
def honest(x, out):
    def launch():
        out.copy_(torch.softmax(x, 1))
    return launch

@kernelzoo.register("mine", "softmax", "threads")
def threads(x, out):
    import threading
    threading.Thread(target=time.sleep, args=(60,), name="helper", daemon=True).start()
    return honest(x, out)
"""


def test_the_real_process_is_replaced_where_a_thread_was_left(tmp_path: Path) -> None:
    """It can't be ended: the row is lost, and the others are measured in another process. An honest one passes."""
    ids = ["mine/softmax/honest", "mine/softmax/threads", "torch/softmax/eager"]
    with Guard("cpu", [write(tmp_path / "kernels.py", REAL)]) as guard:
        first = guard._process.pid
        entries, failed = guard.race(PROBLEM, ids, rounds=3)
        assert guard._process.pid != first
    assert [entry["extra_info"]["id"] for entry in entries] == [ids[0], ids[2]]
    assert [row["id"] for row in failed] == [ids[1]]
    assert "left threads behind: helper" in failed[0]["reason"]


def tell(turns: Turns, turn: list[object], took: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that takes so long by the guard's clock."""
    now = iter((0.0, 0.0, took, took))
    monkeypatch.setattr("kernelzoo.measure.sample_audit.time", SimpleNamespace(perf_counter=lambda: next(now)))
    for more in ({"turn": None}, {"turn": turn}):
        turns.heard(lambda stage, id: None, lambda more=more: more)("time", "mine/softmax/only")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([(1e-3, 1.2e-3)] * 5, ""),
        ([(1e-3, 60e-3)] * 5, "a turn said to take 1.00 ms took 60 ms by the guard's clock"),
        ([(1e-3, 60e-3)] * 4 + [(1e-3, 5e-3)], ""),  # a busy host is late, though not always
        ([(1e-3, 12e-3)] * 5, ""),
        ([(0.0, 60e-3)] * 5, "a turn said to take 0.00 ms"),
        ([(float("nan"), 60e-3)] * 5, "has not seen|took 60 ms"),
        ([(1.0, 1.1)] * 5, ""),
    ],
)
def test_a_claim_is_compared_with_the_guard_s_clock(
    claims: list[tuple[float, float]], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns()
    for claimed, took in claims:
        tell(turns, [claimed / 100, 100], took, monkeypatch)
    data = [claimed / 100 for claimed, _ in claims]
    info = {"id": "mine/softmax/only"}
    done = {"entries": [{"extra_info": info, "stats": {"data": data}}]}
    lost = _doubted(PROBLEM, turns, done)
    assert len(done["entries"]) == (not words) and len(lost) == bool(words)
    if words:
        assert re.search(words, lost[0]["reason"]) and layer_of(lost[0]["reason"]) == CLOCK


def test_samples_that_no_turn_gave_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that makes them smaller, or an answer that somebody else gave."""
    turns = Turns()
    tell(turns, [1e-5, 100], 1.2e-3, monkeypatch)
    assert not turns.doubt("mine/softmax/only", [1e-5])
    for samples in ([1e-6], [1e-5, 1e-5], [1e-5, 1e-6]):
        assert "has not seen the turns" in turns.doubt("mine/softmax/only", samples)
    assert "has not seen the turns" in turns.doubt("mine/softmax/other", [1e-5])


def test_progress_is_not_of_turns() -> None:
    heard = []
    more: dict[str, object] = {}
    listen = Turns().heard(lambda stage, id: heard.append((stage, id)), lambda: more)
    listen("check", "a")
    more["turn"] = None
    listen("time", "a")
    assert heard == [("check", "a")]
