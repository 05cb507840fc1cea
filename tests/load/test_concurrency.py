"""Threads, streams, forks and many layouts, on backends made up for the purpose: the way of a call, and no kernel."""

import ctypes
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sections
import torch
import warm
from registered import forget

from kernelzoo import device as device_module
from kernelzoo import registry, tables, torch_private
from kernelzoo.calls import backend as backends
from kernelzoo.calls import launch_cache
from kernelzoo.calls.backend import Backend, get
from kernelzoo.device import make_gpu_current, wrap_with_device
from kernelzoo.errors import BackendUnavailableError, InputTypeError, UnknownNameError
from kernelzoo.launch import Launch, RebindableLaunch, keeping_alive, void
from kernelzoo.operations import Operation
from kernelzoo.operations.canonical import split_in_two
from kernelzoo.registry import Language
from kernelzoo.torch_private import make_tensor_guard

pytestmark = pytest.mark.slow

HOST = sections.Where("cpu", 2**18, 100_000)


class OnDevice(torch.Tensor):
    """A tensor that takes the short way of a repeated call, as one on a GPU does."""

    def get_device(self) -> int:
        return 0


@pytest.fixture
def kept() -> Backend:
    """A backend whose launches can be kept: the minimum of rows of one element, which is a copy."""

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        count = x.numel() * x.element_size()
        return RebindableLaunch(lambda source, target: void(ctypes.memmove(target, source, count)), x, out)

    backend = Backend(Language("kept", ("cpu",), {("min", "auto"): bind}))
    backend._cache._tensor, backend._cache._on_host = OnDevice, False
    backend._allocate = lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype)
    return backend


def enter(kept: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the backend be the one of its name."""
    monkeypatch.setitem(registry._loaded, "kept", Language("kept", ("cpu",), kept._binds))
    monkeypatch.setitem(backends._backends, "kept", kept)


def on_device(n: int, value: float) -> torch.Tensor:
    return torch.full((n, 1), value).as_subclass(OnDevice)


def test_threads_share_kept_launches_which_are_bounded(kept: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_cache, "MAX_LAUNCHES", 64)
    largest = 0

    def go(t: int) -> None:
        nonlocal largest
        for k in range(400):
            x = on_device(1 + (k * 13 + t * 7) % 200, float(k + t))
            assert bool((kept.min(x) == k + t).all())
            largest = max(largest, len(kept._cache._launches))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(go, range(16)))
    assert 0 < largest <= 64 + 16


def test_a_kept_launch_is_for_the_current_device_where_there_are_several(kept, monkeypatch) -> None:
    x = on_device(9, 1.0)
    given = []
    kept._allocate = lambda shape, strides, dtype: given.append((shape, strides, dtype)) or torch.empty(shape)
    for devices, current, short in ((2, 1, False), (2, 0, True), (1, 1, True)):
        kept._cache.forget()
        given.clear()
        monkeypatch.setattr(torch.cuda, "device_count", lambda n=devices: n)
        monkeypatch.setattr(launch_cache, "current_device", lambda n=current: n)
        kept.min(x)
        assert bool((kept.min(x) == 1).all())
        assert given == ([((9,), (1,), torch.float32)] if short else [])


def note(kept: Backend, asked: list[torch.Tensor]) -> None:
    """Have the backend note for which tensors it looks for a launch by key."""
    find = kept._cache.find

    def noting(op: Operation, inputs: tuple[torch.Tensor, ...], *call: Any) -> Any:
        asked.extend(inputs)
        return find(op, inputs, *call)

    kept._find = noting  # type: ignore[method-assign]


def otherwise_laid() -> dict[str, torch.Tensor]:
    """Tensors that are like ``on_device(8, 1.0)`` in all but one thing."""
    x = on_device(8, 1.0)
    empty = on_device(8, 1.0)
    empty.untyped_storage().resize_(0)
    return {
        "dtype": x.double().as_subclass(OnDevice),
        "length": on_device(9, 1.0),
        "rank": on_device(8, 1.0).squeeze(1),
        "strides": on_device(16, 1.0)[::2],
        "alignment": on_device(9, 1.0)[1:],
        "negative": torch._neg_view(x),
        "class": torch.ones(8, 1),
        "meta": torch.ones(8, 1, device="meta").as_subclass(OnDevice),
        "memory": empty,
    }


@pytest.mark.parametrize("name", otherwise_laid())
def test_the_shortest_way_is_for_the_same_layout_alone(kept: Backend, name: str) -> None:
    asked: list[torch.Tensor] = []
    note(kept, asked)
    for value in (1.0, 2.0, 3.0):
        x = on_device(8, value)
        assert bool((kept.min(x) == value).all())
    assert len(asked) == 1, "the second call of a layout asks for its key"
    other = otherwise_laid()[name]
    bind = kept._binds.pop(("min", "auto"))  # what could only copy contiguous memory
    with pytest.raises(UnknownNameError):
        kept.min(other)
    kept._binds["min", "auto"] = bind
    assert asked[1:] and asked[1] is other


def test_the_shortest_way_is_for_the_same_call_alone(kept: Backend) -> None:
    asked: list[torch.Tensor] = []
    note(kept, asked)
    x, out = on_device(8, 1.0), on_device(8, 0.0)[:, 0]
    kept._binds["min", "other"] = kept._binds["min", "third"] = kept._binds["min", "auto"]
    kept.min(x)
    others: tuple[dict[str, Any], ...] = ({"variant": "other"}, {"dim": 1}, {"keepdim": True})
    for other in others:
        kept.min(x)
        asked.clear()
        kept.min(x, **other)
        assert len(asked) == 1, other
    kept.min(x)
    asked.clear()
    assert kept.min(x, out=out) is out and bool((out == 1).all())
    token = tables.chosen.set({"a launch table": "of one's choice"})  # type: ignore[arg-type]
    try:
        del kept._binds["min", "auto"]
        with pytest.raises(UnknownNameError):
            kept.min(x)
    finally:
        tables.chosen.reset(token)
    assert bool((kept.min(x) == 1).all())


def test_the_test_of_a_layout_is_for_plain_tensors_in_the_same_mode() -> None:
    x = torch.ones(8, 1)
    alike = make_tensor_guard(x)
    assert alike(torch.zeros(8, 1))
    assert not any(map(alike, (x.to_sparse(), torch.nn.Parameter(x, requires_grad=False), x.numpy(), [1.0], None)))
    batch = []

    def of_row(row: torch.Tensor) -> torch.Tensor:
        batch.append(alike(row))
        return row

    torch.func.vmap(of_row)(torch.ones(3, 8, 1))
    assert batch == [False]
    with torch.inference_mode():
        assert not alike(torch.zeros(8, 1))
    x.requires_grad_()
    assert not alike(x)


def test_the_shortest_way_is_found_again_in_another_mode(kept: Backend) -> None:
    asked: list[torch.Tensor] = []
    note(kept, asked)
    with torch.inference_mode():
        kept.min(on_device(8, 1.0))
        kept.min(on_device(8, 1.0))
    assert len(asked) == 1
    for value in (1.0, 2.0, 3.0):
        assert bool((kept.min(on_device(8, value)) == value).all())
    assert len(asked) == 2
    for _ in range(2):
        for n in (8, 9, 10):
            kept.min(on_device(n, 1.0))
    asked.clear()
    for value in (1.0, 2.0):  # layouts in turn, each of which is known by the one before
        for n in (8, 9, 10):
            assert bool((kept.min(on_device(n, value)) == value).all())
    assert not asked
    tests = {id(entry.guard) for entry in kept._cache._launches.values()}
    for n in (9, 8, 10, 9, 9):  # and in another order, which makes no test anew
        kept.min(on_device(n, 1.0))
    assert {id(entry.guard) for entry in kept._cache._launches.values()} == tests


def test_a_kept_launch_drops_no_tangent_and_hides_from_no_mode(kept: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own test of a layout takes these for alike."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.autograd import forward_ad

    enter(kept, monkeypatch)
    for n in (8, 9, 8):
        kept.min(on_device(n, 1.0))
    for n in (8, 9):  # the layout of the last call, and another
        x = on_device(n, 1.0)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(n, 1), torch.ones(n, 1)).as_subclass(OnDevice)
            assert forward_ad.unpack_dual(kept.min(dual)).tangent is not None
        with FakeTensorMode(allow_non_fake_inputs=True):
            assert isinstance(kept.min(torch.ones(n, 1)), FakeTensor)
        assert kept.min(on_device(n, 1.0).requires_grad_()).requires_grad
        with pytest.raises(InputTypeError, match="keepdim"):
            kept.min(x, keepdim=[True])
        assert bool((kept.min(x) == 1).all())


def test_a_kept_launch_drops_no_gradient(kept: Backend) -> None:
    """Whether it was made with or without a gradient to come, and whichever mode it is called in."""
    for first in (True, False):
        kept._cache.forget()
        for required in (first, first, not first, first, not first, True, True, False):
            x = on_device(8, 1.0).requires_grad_(required)
            assert kept.min(x).requires_grad == required
            with torch.no_grad():
                assert not kept.min(x).requires_grad
        for n in (8, 9, 8):  # nor of the layout before the last
            for required in (True, False):
                assert kept.min(on_device(n, 1.0).requires_grad_(required)).requires_grad == required
    for _ in range(2):  # after calls of both kinds in turn
        kept.min(on_device(8, 1.0).requires_grad_())
    asked: list[torch.Tensor] = []
    note(kept, asked)
    for _ in range(3):
        assert kept.min(on_device(8, 1.0).requires_grad_()).requires_grad
    assert not asked, "the test is for a gradient to come, too"


def test_a_torch_without_the_test_finds_launches_by_key(kept: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    kept.min(on_device(8, 1.0))
    del kept._binds["min", "auto"]  # from here on nothing can be bound anew
    for value in (2.0, 3.0):
        assert bool((kept.min(on_device(8, value)) == value).all())


def test_a_kept_launch_is_not_of_what_was_registered_before(kept: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(kept, monkeypatch)
    kept.min(on_device(8, 1.0))

    def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(out.fill_(7.0))

    monkeypatch.setitem(registry._registered, ("kept", "min", "auto"), auto)  # taken back when the test is over
    registry.register("kept", "min", "auto")(auto)
    for _ in range(2):
        assert bool((kept.min(on_device(8, 1.0)) == 7.0).all())


def test_a_kept_launch_holds_no_tensor(kept: Backend) -> None:
    import weakref

    x = on_device(9, 1.0)
    gone = weakref.ref(x)
    kept.min(x)
    assert kept._cache._launches
    del x
    assert gone() is None


PACKAGE = {
    "__init__.py": "def probe():\n    return ('cpu',)\n",
    "min.py": """
import threading, time
import kernelzoo

started.set() if (started := getattr(kernelzoo, "_load_started", None)) else None
time.sleep(0.5)

@kernelzoo.register("slowpoke", "min", "auto")
def auto(x, out):
    '''Slow to import.'''
    return lambda: None
""",
}


@pytest.fixture
def slowpoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A backend's package whose module takes its time to import."""
    folder = tmp_path / "slowpoke_package"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = {**registry.backend_packages(), "slowpoke": "slowpoke_package"}
    monkeypatch.setattr(registry, "backend_packages", lambda: packages)
    yield
    for name in [name for name in sys.modules if name.startswith("slowpoke_package")]:
        del sys.modules[name]
    forget("slowpoke")


@pytest.mark.usefixtures("slowpoke")
def test_an_import_and_a_first_use_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # One thread imports the module and registers at its end; meanwhile another gets the backend, which imports it too.
    import kernelzoo

    started = threading.Event()
    monkeypatch.setattr(kernelzoo, "_load_started", started, raising=False)
    first = threading.Thread(target=importlib.import_module, args=("slowpoke_package.min",), daemon=True)
    first.start()
    assert started.wait(10)
    found: list[Backend] = []
    second = threading.Thread(target=lambda: found.append(get("slowpoke")), daemon=True)
    second.start()
    first.join(10)
    second.join(10)
    assert not first.is_alive() and not second.is_alive(), "each waits for the other"
    assert found[0].variants("min") == ("auto",)


@pytest.mark.usefixtures("slowpoke")
def test_threads_that_come_first_load_one_backend() -> None:
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: id(get("slowpoke")), range(16)))
    assert len(found) == 1


def test_a_fork_keeps_no_lock_and_no_launch(kept: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.min(on_device(3, 1.0))
    enter(kept, monkeypatch)
    before = registry._lock
    taken = threading.Thread(target=before.acquire)  # as by a thread that the child does not have
    taken.start()
    taken.join()
    registry._reset_after_fork()
    assert registry._lock is not before and registry._lock.acquire(timeout=1)
    registry._lock.release()
    assert not kept._cache._launches and not kept._cache.expected


def test_cuda_after_a_fork_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    device_module._remember_cuda_process()
    monkeypatch.setattr(os, "getpid", lambda: 0)
    x: Any = SimpleNamespace(device=SimpleNamespace(type="cuda"), is_cuda=True)
    with pytest.raises(BackendUnavailableError, match="spawn"):
        Language("kept", ("cuda",), {}).check_inputs(x)
    device_module._cuda_user = 0


# --- streams, on a torch.cuda that is made up -------------------------------------------------------------------------


class FakeCuda:
    """As much of torch.cuda as a workspace asks, and a list of what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current, self.capturing, self.said = 11, False, list[str]()
        for name, value in {
            "current_stream": lambda device: self.stream(self.current),
            "ExternalStream": lambda pointer, device: self.stream(pointer),
            "default_stream": lambda device: self.stream(0),
            "is_current_stream_capturing": lambda: self.capturing,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(torch_private, "current_stream", lambda device: self.current)

    def stream(self, pointer: int) -> Any:
        wait = lambda other: self.said.append(f"{pointer} waits for {other.pointer}")  # noqa: E731
        return SimpleNamespace(pointer=pointer, wait_stream=wait)

    def tensor(self) -> Any:
        record = lambda stream: self.said.append(f"used on {stream.pointer}")  # noqa: E731
        return SimpleNamespace(is_cuda=True, get_device=lambda: 0, record_stream=record)

    def ran(self, launch: Launch, stream: int, capturing: bool = False) -> list[str]:
        self.current, self.capturing, self.said = stream, capturing, []
        launch()
        return self.said


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def test_a_workspace_follows_its_launch(cuda: FakeCuda) -> None:
    """A capture neither waits for what is outside nor counts as having waited."""
    launch = keeping_alive(lambda: cuda.said.append("ran"), cuda.tensor(), cuda.tensor())
    assert cuda.ran(launch, 11) == ["ran"]
    assert cuda.ran(launch, 22, capturing=True) == ["used on 22", "used on 22", "ran"]
    assert cuda.ran(launch, 22) == ["22 waits for 11", "used on 22", "used on 22", "ran"]
    assert cuda.ran(launch, 22) == cuda.ran(launch, 11) == ["ran"]
    cuda.current = 0
    assert cuda.ran(keeping_alive(lambda: None, cuda.tensor()), 22) == ["22 waits for 0", "used on 22"]


def test_on_the_host_a_launch_stays_what_it_is() -> None:
    def launch() -> None:
        pass

    assert keeping_alive(launch, torch.empty(1)) is launch
    assert wrap_with_device(launch, torch.empty(1)) is launch


@pytest.mark.parametrize("before", [0, 1])
def test_attaching_leaves_the_current_device_as_it_was(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    current, asked = [before], []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: (asked.append(index), current.__setitem__(0, index)))
    with pytest.raises(ValueError), make_gpu_current(1):  # noqa: PT011, PT012
        assert current == [1] and asked == [1]  # also where it is current already: the thread may have no context
        raise ValueError
    assert current == [before]


# --- past a grid's limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "axis"), [((2000, 7, 3), 0), ((3, 7, 2001), 2)])
def test_halves_are_the_whole(shape: tuple[int, int, int], axis: int) -> None:
    x = torch.randn(shape)
    out = torch.full((shape[0], shape[2]), torch.nan)
    bound: list[tuple[int, ...]] = []

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        bound.append(tuple(x.shape))
        return lambda: void(torch.amin(x, 1, out=out))

    split_in_two(bind, (x, out), (("outer", "n", "inner"), ("outer", "inner")))()
    assert torch.equal(out, x.amin(1))
    assert sum(part[axis] for part in bound) == shape[axis] and len(bound) == 2
    assert bound[0][axis] % 256 == 0


# --- what is kept, for ever and not -----------------------------------------------------------------------------------


def test_compiled_functions_are_bounded_and_never_kept_unwarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelzoo.kernels.torch import compiled
    from kernelzoo.kernels.torch.min import compile as form

    warmed: list[tuple[int, ...]] = []

    def compile(function: Callable[..., None], **_: object) -> Callable[..., None]:
        def run(x: torch.Tensor, dim: int, out: torch.Tensor) -> None:
            warmed.append(tuple(x.shape))
            function(x, dim, out)

        return run

    monkeypatch.setattr(torch, "compile", compile)
    monkeypatch.setattr(compiled, "KEPT", 3)
    monkeypatch.setattr(compiled, "_compiled", {})
    monkeypatch.setattr(compiled, "_check_toolchain", lambda *_: None)

    def bind(n: int) -> None:
        form.compile(torch.empty(2, n, 1), torch.empty(2, 1))

    for n in range(1, 20):
        bind(n)
        assert len(compiled._compiled) <= 3
    bind(17)  # still kept, and now the last that was asked for
    assert len(warmed) == 19
    bind(20)
    bind(17)
    bind(18)
    assert warmed[19:] == [(2, 20), (2, 18)]


@pytest.mark.parametrize("op", ["min", "softmax"])
def test_many_calls_leave_nothing_behind(op: str) -> None:
    pytest.importorskip("numba", reason="the cpu backend is written in Numba")
    id = f"cpu/{op}/auto"
    check = partial(sections._leak, registry.implementation(id), HOST, [(4, 32), (3, 5)], HOST.calls)
    row = sections.tried("memory", id, "calls", check)
    assert row["count"] == 100_000 and row["figure"] < sections.LEAK + 2**22 / row["count"], row["detail"]


# --- the host backend itself ------------------------------------------------------------------------------------------

FORK = """
import os, sys, threading, torch, kernelzoo
x = torch.randn(2048, 1024)  # large enough for several threads
cpu = kernelzoo.get("cpu")
def results():
    gradients = cpu.rms_norm_backward, cpu.layer_norm_backward
    return [cpu.softmax(x), cpu.min(x), *(gradient(x, x[0], x)[0] for gradient in gradients)]
expected = results()
stop = False
def busy():
    while not stop: cpu.min(x)
thread = threading.Thread(target=busy)
thread.start()
for _ in range(3):
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # torch's own threads can't be forked
        os._exit(0 if all(map(torch.equal, results(), expected)) else 1)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
stop = True
thread.join()
"""


def test_a_forked_child_gives_the_same_bits() -> None:
    pytest.importorskip("numba", reason="the cpu backend is written in Numba")
    _, out, err = warm.run(["-c", FORK], os.curdir, dict(os.environ))
    assert out.split() == ["0", "0", "0"], err
