"""Launches, which binds return, and recordings of launches instead of runs.

A *bind* does what a problem needs once: checks, choice of blocks and grid, compiling. The *launch* that it returns is
run, timed, and captured in CUDA graphs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from kernelzoo.device import hold_value
from kernelzoo.errors import InputTypeError, KernelZooError, OutputError
from kernelzoo.layout import short_storage_message, span
from kernelzoo.lazy import torch

Launch = Callable[[], None]
"""A function that runs the bound problem on the current stream, any number of times.

A launch may run on another stream than its bind, and from any thread. It must not run twice at once, because both runs
write the same ``out``. A CUDA graph contains only addresses: keep the launch as long as the graph.
"""

Bind = Callable[..., Launch]
"""An implementation: a function that takes canonical tensors, inputs first (see :mod:`kernelzoo.operations`), and
scalars by name, and returns a launch."""


class BoundTensors:
    """The storages of bound tensors, inputs first. A launch reads their current addresses, which torch may change."""

    __slots__ = ("ends", "offsets", "storages")

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.storages = [x.untyped_storage() for x in tensors]
        self.offsets = [int(x.storage_offset()) * x.element_size() for x in tensors]
        """The offset of each tensor in its storage, in bytes."""
        spans = map(span, tensors)
        self.ends = [offset + size if size else 0 for offset, size in zip(self.offsets, spans, strict=True)]
        """The end of each tensor in its storage, in bytes; 0 if it is empty, whatever its offset."""

    def check_storages(self, output_count: int) -> None:
        """Raise InputTypeError if a storage was freed or shrunk; OutputError for the last ``output_count`` storages."""
        for i, storage in enumerate(self.storages):
            if len(storage) < self.ends[i]:
                raise self.missing_memory_error(output_count)

    def addresses(self, output_count: int) -> list[int]:
        """Return the addresses of the tensors. Raises as ``check_storages`` does."""
        self.check_storages(output_count)
        return [storage.data_ptr() + self.offsets[i] for i, storage in enumerate(self.storages)]

    def missing_memory_error(self, output_count: int) -> KernelZooError:
        """Return the error that names the tensor without memory."""
        inputs = len(self.ends) - output_count
        sizes = enumerate(map(len, self.storages))
        words, place = next((short_storage_message(size, self.ends[i]), i) for i, size in sizes if size < self.ends[i])
        if place < inputs:
            return InputTypeError(f"input {place} of {inputs} that a launch is bound to {words}")
        return OutputError(f"output {place - inputs} of {output_count} that a launch is bound to {words}")


class RebindableLaunch:
    """A launch that can run on other addresses of the same layout. It uses no memory but inputs and outputs.

    ``at`` takes the addresses of the tensors, inputs first. A backend caches such launches by the tensors' layout. A
    repeated call then runs the cached launch.

    A call raises InputTypeError or OutputError after a tensor's storage was freed or shrunk.
    """

    __slots__ = ("_memory", "at", "outputs", "tensors")
    workspace: tuple[torch.Tensor, ...] = ()

    def __init__(self, at: Callable[..., None], *tensors: torch.Tensor) -> None:
        self.at, self.tensors, self._memory = at, tensors, BoundTensors(tensors)
        self.outputs = 1
        """The number of outputs, which are the last tensors."""

    def __call__(self) -> None:
        memory = self._memory
        if len(memory.ends) != 2:
            self.at(*memory.addresses(self.outputs))
            return
        (x, out), (x_offset, out_offset), (x_end, out_end) = memory.storages, memory.offsets, memory.ends
        if len(x) < x_end or len(out) < out_end:  # the same check in half the time
            raise memory.missing_memory_error(self.outputs)
        self.at(x.data_ptr() + x_offset, out.data_ptr() + out_offset)


class StorageGuard:
    """Any launch, with the storage checks of :class:`RebindableLaunch`.
    ``anew``: check the tensors' present storages at each call, for a launch that copies the caller's tensors."""

    __slots__ = ("_launch", "_memory", "_outputs", "_tensors")

    def __init__(self, launch: Launch, tensors: Sequence[torch.Tensor], outputs: int, anew: bool) -> None:
        self._outputs, self._memory, self._tensors = outputs, BoundTensors(tensors), tensors if anew else None
        self._launch: Callable[[], Any] = launch

    def __call__(self) -> Any:
        memory = self._memory if self._tensors is None else BoundTensors(self._tensors)
        memory.check_storages(self._outputs)
        return self._launch()  # the caller's check rejects anything but None


def add_storage_checks(launch: Launch, tensors: Sequence[torch.Tensor], outputs: int, anew: bool = False) -> Launch:
    """Return the launch with a RebindableLaunch's storage checks. The last ``outputs`` tensors are outputs.
    Tensors without memory, as in a trace, are not checked."""
    if isinstance(launch, RebindableLaunch):
        launch.outputs = outputs
        return launch
    plain = torch.Tensor.__torch_dispatch__
    imagined = any(x.is_meta or type(x).__torch_dispatch__ is not plain or not x.numel() for x in tensors)
    return launch if imagined or isinstance(launch, StorageGuard) else StorageGuard(launch, tensors, outputs, anew)


class WorkspaceLaunch(RebindableLaunch):
    """A launch that can run on other addresses, and uses a workspace (scratch memory), which one stream prepares.
    A backend caches it for calls on that stream only, because calls on one stream do not overlap."""

    __slots__ = ("_launch", "workspace")

    def __init__(self, at: Callable[..., None], *tensors: torch.Tensor, workspace: Sequence[torch.Tensor]) -> None:
        super().__init__(at, *tensors)
        self.workspace = tuple(workspace)
        self._launch = keeping_alive(super().__call__, *workspace)

    def __call__(self) -> None:
        self._launch()


class ContiguousFallback:
    """A launch that first copies its tensors to contiguous memory. In repeated calls, the backend copies them."""

    __slots__ = ("_launch",)

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def __call__(self) -> None:
        self._launch()


class ResultCopyingLaunch:
    """A launch whose function returns new results. ``deliver`` checks them, and copies them into the outputs.
    The copy is not part of the timed work: within :func:`postpone_result_copies` it is postponed."""

    __slots__ = ("_deliver", "_function")

    def __init__(self, function: Callable[[], Any], deliver: Callable[[Any], object]) -> None:
        self._function, self._deliver = function, deliver

    def __call__(self) -> None:
        results, waiting = self._function(), _undelivered.get()
        if waiting is None:
            self._deliver(results)
        else:
            waiting.append(partial(self._deliver, results))


_undelivered: ContextVar[deque[Callable[[], object]] | None] = ContextVar("undelivered", default=None)


def postpone_result_copies(max_copies: int) -> AbstractContextManager[deque[Callable[[], object]]]:
    """A context in which launches copy no results. It yields the last ``max_copies`` copies, as functions to call."""
    return hold_value(_undelivered, deque[Callable[[], object]](maxlen=max_copies))


class PerStreamLaunches:
    """Launches for one layout, one per stream, each with a workspace. A call runs the current stream's launch.

    A call returns True, without launching, if there is none or a CUDA graph is captured. A graph needs its own
    workspace.
    """

    __slots__ = ("_capturing", "_current", "_device", "_kept", "_workspaces")

    def __init__(self, device: int) -> None:
        from kernelzoo.torch_private import current_stream

        self._kept: dict[int, Callable[..., None]] = {}
        self._workspaces: dict[int, tuple[torch.Tensor, ...]] = {}
        self._device = device
        self._current, self._capturing = current_stream, torch.cuda.is_current_stream_capturing

    def keep(self, launch: WorkspaceLaunch) -> None:
        """Keep a launch for the current stream, on which it was bound."""
        if not self._capturing():
            stream = self._current(self._device)
            self._workspaces[stream], self._kept[stream] = launch.workspace, launch.at

    def __call__(self, *addresses: int) -> bool | None:
        at = self._kept.get(self._current(self._device))
        if at is None or self._capturing():
            return True
        at(*addresses)
        return None


def void(_: object) -> None:
    """Return None for any value, so that a lambda around an expression can be a launch."""


def chain_launches(*launches: Launch | None) -> Launch:
    """Return one launch that runs these in order, without None. If all are WorkspaceLaunches, and one of them has all
    their tensors, the result is a WorkspaceLaunch too."""
    steps = [launch for launch in launches if launch is not None]
    if len(steps) == 1:
        return steps[0]
    placed = [step for step in steps if isinstance(step, WorkspaceLaunch)]
    if steps and len(placed) == len(steps):
        tensors = max((step.tensors for step in placed), key=len)
        place = {id(tensor): i for i, tensor in enumerate(tensors)}
        if all(id(tensor) in place for step in placed for tensor in step.tensors):
            workspace = {id(tensor): tensor for step in placed for tensor in step.workspace}
            at = chain_under_lock(*(_take_own_addresses(step, place) for step in placed))
            return WorkspaceLaunch(at, *tensors, workspace=tuple(workspace.values()))

    def launch() -> None:
        for step in steps:
            step()

    return launch


def _take_own_addresses(launch: RebindableLaunch, tensor_indices: Mapping[int, int]) -> Callable[..., None]:
    """Return a function of all tensors' addresses, which runs the launch. ``tensor_indices``: by ``id`` of a tensor."""
    wanted, at = [tensor_indices[id(tensor)] for tensor in launch.tensors], launch.at
    if wanted == list(range(len(tensor_indices))):
        return at
    return lambda *addresses: at(*[addresses[i] for i in wanted])


def chain_under_lock(*steps: Callable[..., None]) -> Callable[..., None]:
    """Return a launch of kernels that share a workspace. A lock keeps two threads on one stream from interleaving."""
    lock = Lock()

    def at(*addresses: int) -> None:
        with lock:
            for step in steps:
                step(*addresses)

    return at


def keeping_alive(launch: Launch, *tensors: torch.Tensor) -> Launch:
    """Return a launch that keeps these tensors alive, ready and safe on any stream.

    A bind's work, such as zeroing a counter, runs on the stream of the bind. torch's allocator watches only that stream
    before it reuses memory. So the first launch on another stream waits for that work, and marks the memory as used
    there. A CUDA graph can't wait for work outside it: the bind must be finished, which ``torch.cuda.graph`` ensures.
    """
    if not tensors[0].is_cuda:
        return launch
    from kernelzoo.torch_private import current_stream

    device: int = tensors[0].get_device()
    home: int = current_stream(device)
    ready = {home}

    def lend(stream: int) -> None:
        here = torch.cuda.current_stream(device)
        if not torch.cuda.is_current_stream_capturing():
            # To the driver, 0 is the default stream; to torch.cuda.ExternalStream it is a new stream.
            there = torch.cuda.ExternalStream(home, device) if home else torch.cuda.default_stream(device)  # type: ignore[no-untyped-call]
            here.wait_stream(there)
            ready.add(stream)
        for tensor in tensors:
            tensor.record_stream(here)

    def launch_keeping_alive() -> None:
        stream: int = current_stream(device)
        if stream not in ready:
            lend(stream)
        launch()

    return launch_keeping_alive


# --- Recording: what would be launched, without a device ------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel: its source, its machine code, and the registers and memory that it needs."""

    name: str
    """The name in the source, with template arguments if any."""
    language: str
    source: str
    file: str
    line: int
    """The kernel's first line in that file, from 1."""
    constants: dict[str, Any]
    """The launch table's numbers, by their names in the source."""
    symbol: str
    """The kernel's entry in the machine code."""
    binary: bytes = b""
    """Machine code: a cubin, or AMD's hsaco."""
    registers: int | None = None
    """Registers per thread; None for a host kernel."""
    local_bytes: int = 0
    """Stack and local memory per thread."""
    shared_bytes: int = 0
    """Static shared memory per block."""
    ptx: str | None = None
    stages: dict[str, str] = field(default_factory=dict)
    """The code of the compiler's stages before PTX, by name, in order."""
    assembly: str | None = None
    """The assembly if the language gives it; else the machine code is disassembled."""
    host: tuple[str, str] = ("", "")
    """For a host kernel, the architecture and processor of its code."""


@dataclass(frozen=True)
class LaunchStep:
    """One planned kernel of a launch."""

    kernel: str
    """The kernel's name, and the compiler's arguments."""
    grid: tuple[int, ...]
    threads: int
    """Threads of a block."""
    shared_bytes: int = 0
    """Dynamic shared memory of a block, if the plan sets it."""
    cluster: int = 1
    cooperative: bool = False
    """Whether all blocks must run at once."""
    arguments: tuple[Any, ...] = ()
    """The plan's arguments other than tensors."""
    build: Callable[[], Compiled] | None = field(default=None, compare=False, repr=False)
    """Compiles the kernel for the device of the bind; None if the recording doesn't compile."""
    constants: tuple[Any, ...] = ()
    """Compile-time constants that ``kernel`` does not show."""
    block: tuple[int, ...] = ()
    """Threads along each axis of a block with several axes."""


class Recording:
    """The steps of all kernels that are bound while it is active, in order. Nothing is loaded or run."""

    def __init__(self, can_compile: bool) -> None:
        self.can_compile = can_compile
        """Whether steps can be compiled, so that a plan may ask for a kernel's resources."""
        self.steps: list[Any] = []

    def make_launch(self, *steps: LaunchStep) -> Launch:
        """Return a launch that records these steps when called. If not ``can_compile``, record them at once instead."""
        if not self.can_compile:
            self.steps += steps
            return chain_launches()
        return lambda: self.steps.extend(steps)


recording: ContextVar[Recording | None] = ContextVar("recording", default=None)
"""This thread's recording, which every language's launch helper asks for."""


@contextmanager
def record_binds(*, can_compile: bool = False) -> Iterator[list[Any]]:
    """A context that records this thread's binds, and yields the list of steps.
    If ``can_compile``, a launch adds its steps when called. Otherwise a bind adds them, and its launch does nothing."""
    with hold_value(recording, Recording(can_compile)) as made:
        yield made.steps
