"""A launch is given addresses alone: so tensors whose storage is gone are refused, in every way into one."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import lost_storages
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import kernelzoo
from kernelzoo.launch import RebindableLaunch

pytestmark = pytest.mark.slow

LANGUAGES = ("torch", "cpu", "triton", "gluon", "cupy", "numba", "cutile", "cute", "helion")


def taken(name: str, device: str) -> Any:
    """A backend, if it takes tensors on such a device here."""
    try:
        backend = kernelzoo.get(name)
    except kernelzoo.BackendUnavailableError as error:
        pytest.skip(str(error))
    if device not in backend.devices:
        pytest.skip(f"{name} takes {', '.join(backend.devices)} here")
    return backend


@pytest.fixture(params=LANGUAGES)
def on_host(request: pytest.FixtureRequest) -> Any:
    """A backend on the host, emulated too."""
    return taken(request.param, "cpu")


@pytest.mark.parametrize("how", [*lost_storages.STILL_THERE, *lost_storages.LOST])
@pytest.mark.parametrize("layout", lost_storages.LAYOUTS)
def test_storages_change_between_calls(on_host: Any, layout: str, how: str) -> None:
    if on_host.emulator and layout != "rows":
        pytest.skip("takes long in an emulator")
    assert list(lost_storages.tried(on_host, "cpu", layout, how)) == []


def test_what_a_gradient_needs_is_gone(on_host: Any) -> None:
    assert list(lost_storages.backwards(on_host, "cpu")) == []


@pytest.mark.parametrize("name", LANGUAGES)
def test_storages_change_between_calls_on_a_gpu(name: str) -> None:
    """In a process of its own: what fails ends the context of the device."""
    taken(name, "cuda")
    done = subprocess.run(
        [sys.executable, lost_storages.__file__, name, "cuda"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.splitlines() == ["walked"], done.stdout[-3000:] + done.stderr[-3000:]


def test_ranks_refuse_a_shard_without_memory() -> None:
    from kernelzoo.distributed import calls, plans

    x, y = torch.ones(4, 8), torch.ones(4, 8)
    for _ in range(2):
        assert calls.validate("softmax", (x,), 1, "torch") == (1, "torch")
    for one in (x, y):
        one.untyped_storage().resize_(0)
        with pytest.raises(kernelzoo.InputTypeError, match="a storage of 0 bytes"):
            plans.run("softmax_backward", (x, y), (), (), 1, (), "torch")
        if one is x:
            with pytest.raises(kernelzoo.InputTypeError, match="a storage of 0 bytes"):
                calls.validate("softmax", (x,), 1, "torch")
            x = torch.ones(4, 8)


# --- A call leaves no trace -------------------------------------------------------------------------------------------


def state(x: torch.Tensor) -> tuple[object, ...]:
    """All that a call could leave on an input."""
    storage = x.untyped_storage()
    flags = x.requires_grad, x.is_leaf, x.grad, x.grad_fn, x.is_pinned(), x.is_shared(), x._base is None
    return flags, x._version, x.data_ptr(), storage.nbytes(), storage.resizable(), vars(x)


def left(backend: Any, device: str) -> Iterator[str]:
    """What the ways into a launch leave on their tensors."""
    for layout in ("rows", "columns", "copied"):
        values, dim = lost_storages.LAYOUTS[layout](device)
        for way in lost_storages.ways(backend, values, dim, 0):
            before = {name: state(x) for name, x in way.tensors.items()}
            for _ in range(3):
                found = way.call()
            outputs = {"out", "least"} & {*way.tensors}
            for name, x in way.tensors.items():
                now = state(x)
                if now[:1] + now[2:] != before[name][:1] + before[name][2:]:
                    yield f"{layout}, {way.name}, {name}: {before[name]} became {now}"
                if name not in outputs and now[1] != before[name][1]:
                    yield f"{layout}, {way.name}, {name}: its version counter moved"
            if isinstance(found, torch.Tensor) and not found.untyped_storage().resizable():
                yield f"{layout}, {way.name}: the result can't be resized"
            if way.name in lost_storages.BOUND:  # a launch keeps its tensors
                continue
            memory = {name: StorageWeakRef(x.untyped_storage()) for name, x in way.tensors.items()}
            found = now = x = None
            way.tensors.clear()
            if not all(ref.expired() for ref in memory.values()):
                gc.collect()  # an emulator's objects may refer to each other, and so may a compiler's errors
            yield from (f"{layout}, {way.name}, {name}: kept" for name, ref in memory.items() if not ref.expired())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_call_leaves_no_trace_on_tensors(name: str, device: str) -> None:
    assert list(left(taken(name, device), device)) == []


# --- What is not torch's own ------------------------------------------------------------------------------------------


def test_arrays_that_numpy_resizes_are_read_where_they_are() -> None:
    import numpy as np

    backend = kernelzoo.get("torch")
    x, out = np.random.default_rng(0).standard_normal((8, 16)), np.empty((8, 16))
    for _ in range(3):
        backend.softmax(x, out=out)
    for array in (x, out):
        array.resize((64, 1024), refcheck=False)
        array.resize((8, 16), refcheck=False)
        assert backend.softmax(x, out=out) is out
        np.testing.assert_allclose(out, torch.softmax(torch.tensor(x), -1).numpy())
        np.testing.assert_allclose(backend.softmax(x), out)


def test_arrays_without_memory_are_refused() -> None:
    """By CuPy, say, whose arrays may have any address."""
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    cupy = pytest.importorskip("cupy")
    backend = taken("cupy", "cuda")
    for _ in range(3):
        backend.softmax(cupy.ones((8, 64), dtype="float32"))
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 2048, None, 0), 0)
    with pytest.raises(kernelzoo.KernelZooError):
        backend.softmax(cupy.ndarray((8, 64), "float32", memory))


# --- The launch itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_a_bound_launch_names_what_it_lost(count: int) -> None:
    ran: list[tuple[int, ...]] = []
    tensors = [torch.ones(4, 8) for _ in range(count)]
    launch = RebindableLaunch(lambda *addresses: ran.append(addresses), *tensors)
    launch()
    assert ran.pop() == tuple(x.data_ptr() for x in tensors)
    for place, x in enumerate(tensors):
        error = kernelzoo.OutputError if place == count - 1 else kernelzoo.InputTypeError
        for size in (0, 100):
            x.untyped_storage().resize_(size)
            with pytest.raises(error, match=f"end at byte 128 of a storage of {size} bytes"):
                launch()
        x.untyped_storage().resize_(128)
    assert ran == []
    launch()
    assert ran == [tuple(x.data_ptr() for x in tensors)]


def test_an_empty_tensor_begins_anywhere() -> None:
    ran: list[tuple[int, ...]] = []
    out = torch.ones(4)
    RebindableLaunch(lambda *addresses: ran.append(addresses), torch.ones(0).as_strided((0,), (2,), 3), out)()
    assert len(ran) == 1
