"""What a kernel changes in its process costs its own row, and is named; the next one meets the process as it was."""

import _thread
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.resource_tracker import ResourceTracker

import numba
import pytest
import torch
from layers import STATE, layer_of
from registered import forget
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import kernelzoo
from kernelzoo import measure
from kernelzoo.measure import DeviceLostError, Problem
from kernelzoo.measure.ceilings import beyond_memory
from kernelzoo.measure.process_state import Watch
from kernelzoo.registry import Launch

pytestmark = pytest.mark.timeout(method="thread")  # the other method is a timer and a handler of SIGALRM

CPU = torch.device("cpu")
PROBLEM = Problem("softmax", (64, 33), "float32")

Act = Callable[[], object]


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Called(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def other(frame: object, event: object, given: object) -> None:
    """A hook."""


def lower(limit: int) -> None:
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (500 if soft > 500 or soft < 0 else 499, hard))


UNDONE: dict[str, tuple[Act, str]] = {
    "leaves_a_dispatch_mode": (lambda: Dispatched().__enter__(), "left a TorchDispatchMode behind: Dispatched"),
    "leaves_a_dispatch_and_a_function_mode": (
        lambda: (Dispatched().__enter__(), Called().__enter__()),
        "a TorchFunctionMode behind: Called",
    ),
    "leaves_a_function_mode": (lambda: Called().__enter__(), "left a TorchFunctionMode behind: Called"),
    "sets_the_default_device": (
        lambda: torch.set_default_device("meta"),
        "left a TorchFunctionMode behind: DeviceContext",
    ),
    "leaves_a_profile_hook": (lambda: sys.setprofile(other), "left a profile hook behind"),
    "leaves_a_profile_hook_for_threads": (lambda: threading.setprofile(other), "left a profile hook of threads behind"),
    "leaves_a_trace_hook_for_threads": (lambda: threading.settrace(other), "left a trace hook of threads behind"),
    "sets_the_thread_count_of_torch": (lambda: torch.set_num_threads(7), r"changed torch's thread count from \d+ to 7"),
    "sets_the_thread_count_of_numba": (
        lambda: numba.set_num_threads(1),
        "changed Numba's thread count|left Numba's thread count",
    ),
    "keeps_to_one_processor": (
        lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        "changed the processors it may run",
    ),
    "lowers_a_limit": (lambda: lower(resource.RLIMIT_NOFILE), "changed its limits: RLIMIT_NOFILE"),
    "flushes_subnormals": (lambda: torch.set_flush_denormal(True), "changed floating point"),
    "rounds_upwards": (lambda: ctypes.CDLL(None).fesetround(0x800), "changed floating point"),
    "sets_the_default_dtype": (
        lambda: torch.set_default_dtype(torch.float64),
        "default dtype from torch.float32 to torch.float64",
    ),
    "switches_gradients_off": (lambda: torch.set_grad_enabled(False), "changed grad mode from True to False"),
    "asks_for_deterministic_algorithms": (
        lambda: torch.use_deterministic_algorithms(True),
        "changed deterministic algorithms",
    ),
    "lowers_the_precision_of_products": (
        lambda: torch.set_float32_matmul_precision("medium"),
        "changed the precision of float32 products",
    ),
    "switches_a_flag_of_cudnn_on": (
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        "changed torch.backends.cudnn.benchmark",
    ),
    "ignores_a_signal": (
        lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
        "changed the handlers of signals: SIGUSR1",
    ),
    "starts_a_timer": (lambda: signal.setitimer(signal.ITIMER_REAL, 500), "changed a timer"),
    "changes_the_environment": (
        lambda: os.environ.update(OMP_NUM_THREADS="3"),
        "changed the environment: OMP_NUM_THREADS",
    ),
    "changes_the_working_directory": (lambda: os.chdir("/"), "changed the working directory from .* to /"),
    "changes_the_switch_interval": (lambda: sys.setswitchinterval(1.0), "changed the switch interval"),
}


turn: list[object] = []
"""Not empty at the start of a turn."""


def bound(act: Act, *, timed: bool) -> Callable[[torch.Tensor, torch.Tensor], Launch]:
    """A softmax that is right, and does this too: when it is bound, or once it is timed."""

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        if not timed:
            act()

        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if timed and turn:
                turn.clear()
                act()

        return launch

    return bind


ENTRANT, EAGER = "entrant/softmax/only", "torch/softmax/eager"

Race = Callable[..., dict[str, measure.Measurement]]


def began(id: str, sample: float | None, launches: int) -> None:
    turn[:] = [id] if id.startswith("entrant") and sample is None else []


@pytest.fixture
def race() -> Iterator[Race]:
    """Races kernels that do these things beside an honest one, hot; the process is afterwards as it was."""
    before = Watch()

    def run(acts: dict[str, Act], *, timed: bool) -> dict[str, measure.Measurement]:
        try:
            for name, act in acts.items():
                kernelzoo.register("entrant", "softmax", name)(bound(act, timed=timed))
            entrants = [kernelzoo.implementation(id) for id in (*(f"entrant/softmax/{name}" for name in acts), EAGER)]
            return measure.race(PROBLEM, entrants, CPU, rounds=4, cache="hot", turned=began)
        finally:
            forget("entrant")

    yield run
    assert [words for words in before.changes() if words != "changed the environment: PYTEST_CURRENT_TEST"] == []


@pytest.mark.parametrize("timed", [False, True], ids=["bound", "timed"])
def test_a_change_is_named_and_undone(timed: bool, race: Race) -> None:
    acts = {name: act for name, (act, _) in UNDONE.items()}
    if len(os.sched_getaffinity(0)) == 1:
        del acts["keeps_to_one_processor"]
    if numba.config.NUMBA_NUM_THREADS == 1:
        del acts["sets_the_thread_count_of_numba"]
    results = race(acts, timed=timed)
    found = {name: results[f"entrant/softmax/{name}"] for name in acts}
    first = "while it was timed, it (left|changed)" if timed else "(left|changed)"
    assert {
        name: result.wrong
        for name, result in found.items()
        if result.samples
        or layer_of(result.wrong) != STATE
        or not re.match(first, result.wrong)
        or not re.search(UNDONE[name][1], result.wrong)
    } == {}
    assert len(results[EAGER].samples) == 4 and not results[EAGER].wrong


LAZY = "makes_its_result_when_somebody_reads_it"


def test_a_result_that_is_made_when_it_is_read(race: Race) -> None:
    """A mode left behind that does the work when somebody looks: the launch itself takes 0.1 us for 2 MB."""

    class Lazy(TorchDispatchMode):
        def __init__(self, x: torch.Tensor, out: torch.Tensor) -> None:
            super().__init__()
            self.x, self.out = x, out

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            while self in modes:
                modes.remove(self)
                self.out.copy_(torch.softmax(self.x, 1))
            return function(*args, **(kwargs or {}))

    modes: list[Lazy] = []

    def lazy(x: torch.Tensor, out: torch.Tensor) -> Launch:
        mode = Lazy(x, out)

        def launch() -> None:
            modes.append(mode)
            if not torch._C._len_torch_dispatch_stack():
                mode.__enter__()

        return launch

    kernelzoo.register("entrant", "softmax", "only")(lazy)
    try:
        problem = Problem("softmax", (4096, 64), "float32")
        (result,) = measure.race(problem, [kernelzoo.implementation(ENTRANT)], CPU, rounds=2).values()
    finally:
        forget("entrant")
    assert result.wrong.startswith("left a TorchDispatchMode behind: Lazy") and not result.samples
    assert layer_of(result.wrong) == STATE


done = threading.Event()


LASTING: dict[str, tuple[Act, str]] = {
    "leaves_a_thread": (
        lambda: threading.Thread(target=done.wait, name="helper").start(),
        "left threads behind: helper",
    ),
    "leaves_a_thread_without_a_name": (
        lambda: _thread.start_new_thread(done.wait, ()),
        "left threads behind: without a name",
    ),
    "leaves_a_child_process": (
        lambda: children.append(subprocess.Popen(["sleep", "60"])),
        "left child processes behind: sleep",
    ),
    "overrides_an_operator_of_torch": (
        lambda: overridden("equal"),
        "left an override of torch's operators behind: aten/equal/CPU",
    ),
    "leaves_inference_mode_on": (
        lambda: modes.append(torch.inference_mode()) or modes[-1].__enter__(),
        "changed inference mode",
    ),
    "leaves_autocast_on": (lambda: modes.append(torch.autocast("cpu")) or modes[-1].__enter__(), "changed autocast"),
}
children: list[subprocess.Popen[bytes]] = []
libraries: list[torch.library.Library] = []
modes: list[object] = []


def overridden(name: str) -> None:
    libraries.append(torch.library.Library("aten", "IMPL"))
    libraries[-1].impl(name, lambda a, b: True, "CPU")


@pytest.fixture
def cleaned() -> Iterator[None]:
    yield
    done.set()
    for child in children:
        child.kill()
        child.wait()
    for library in libraries:
        library._destroy()
    for mode in reversed(modes):
        mode.__exit__(None, None, None)
    for held in (children, libraries, modes):
        held.clear()
    time.sleep(0.05)
    done.clear()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, that an operator is overridden
@pytest.mark.parametrize("timed", [False, True], ids=["bound", "timed"])
@pytest.mark.parametrize("name", LASTING)
def test_what_can_t_be_undone_costs_the_process(race: Race, cleaned: None, name: str, timed: bool) -> None:
    """The guard starts another, and blames the one that it was."""
    act, words = LASTING[name]
    with pytest.raises(DeviceLostError, match=words) as error:
        race({"only": act}, timed=timed)
    assert (error.value.id, layer_of(error.value.reason)) == (ENTRANT, STATE)


def tidy() -> None:
    """Does much of the above, and leaves nothing."""
    with torch.no_grad(), torch.inference_mode(), Dispatched(), Called():
        torch.ones(1)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    subprocess.run(["true"], check=True)
    os.environ["KERNELZOO_A_TEST"] = "1"
    del os.environ["KERNELZOO_A_TEST"]


@pytest.mark.parametrize("timed", [False, True], ids=["bound", "timed"])
def test_what_is_left_as_it_was_is_no_change(race: Race, timed: bool) -> None:
    results = race({"only": tidy}, timed=timed)
    assert [len(result.samples) for result in results.values()] == [4, 4], results[ENTRANT]


@pytest.mark.parametrize("id", ["cpu/softmax/auto", "cpu/min/auto", "torch/softmax/naive", "torch/min/compile"])
def test_the_threads_of_languages_are_their_own(id: str) -> None:
    """OpenMP's, Numba's, and the pool of torch's compiler."""
    implementation = kernelzoo.implementation(id)
    problem = Problem(implementation.op, (64, 33), "float32")
    (result,) = measure.race(problem, [implementation], CPU, rounds=3, cache="hot").values()
    assert len(result.samples) == 3, result


def test_a_bar_that_a_compiler_shows_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """tqdm's: it starts a monitor with the first bar, unless told to look every 0 seconds."""
    done = threading.Event()

    class Bar:
        monitor_interval = 10

        def __init__(self) -> None:
            if self.monitor_interval:
                threading.Thread(target=done.wait, daemon=True, name="tqdm_monitor").start()

    module = types.ModuleType("tqdm")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", module)
    watch = Watch()
    Bar()
    try:
        assert watch.changes() == []
    finally:
        done.set()


def test_no_kernel_is_faster_than_memory() -> None:
    """Nor is a fast one taken for such, though the host was busy when its copy was measured."""
    assert "as fast as this host copies memory" in beyond_memory(2 * 2**20, 1e-7, 2**27)
    assert not beyond_memory(2 * 2**20, 1e-3, 2**27)
    assert not beyond_memory(80, 1e-7, 2**14)


def test_the_host_copies_by_one_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for one another take many times as long where another program has a processor of theirs."""
    threads, asked = torch.get_num_threads(), list[int]()
    set_num_threads = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (asked.append(n), set_num_threads(n)))
    assert beyond_memory(2 * 2**20, 1e-7, 2**24)
    assert asked.count(1) >= 25 and asked[-1] == torch.get_num_threads() == threads
    kernelzoo.register("entrant", "softmax", "only")(bound(lambda: None, timed=False))
    try:
        entrant = kernelzoo.implementation(ENTRANT)

        class Fast(measure.WallClock):
            def prepare(self, *args):
                sampler = super().prepare(*args)
                return replace(sampler, run=lambda: sampler() / 1e6)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules[measure.race.__module__], "clock_for", lambda device: Fast())
            problem = Problem("softmax", (4096, 64), "float32")
            (result,) = measure.race(problem, [entrant], CPU, rounds=2).values()
    finally:
        forget("entrant")
    assert "a measurement error" in result.wrong and not result.samples


def test_a_timer_of_the_user_s_goes_on() -> None:
    """What a kernel started is stopped, and no other timer."""
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    signal.setitimer(signal.ITIMER_VIRTUAL, 500)
    try:
        watch = Watch()
        signal.setitimer(signal.ITIMER_PROF, 500)
        assert any("a timer" in words for words in watch.changes())
        assert signal.getitimer(signal.ITIMER_PROF)[0] == 0 and signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 400
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def test_the_resource_tracker_of_python_is_no_kernel_s_child() -> None:
    """Numba starts one with its threads, from Python 3.14 on."""
    tracker, watch = ResourceTracker(), Watch()
    tracker.ensure_running()
    try:
        assert watch.changes() == []
    finally:
        tracker._stop()
