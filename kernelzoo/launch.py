"""What binding returns: a launch. And what a launch consists of, where it is recorded in place of being run.

A *bind* does once what a problem needs (what the kernel takes, blocks, warps, grid, compiling); the *launch* that it
returns is what runs, what is timed, and what a CUDA graph captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from kernelzoo.storages import Bound

if TYPE_CHECKING:
    import torch

Launch = Callable[[], None]
"""Runs the bound problem on the current stream, as often as it is called.

It may run on another stream than it was bound on, and from any thread, but not twice at once: both would write the same
``out``. A CUDA graph that captured it holds the addresses of its memory and not the memory: keep the launch as long as
the graph.
"""

Bind = Callable[..., Launch]
"""An implementation: takes the canonical tensors of its operation, inputs first (see :mod:`kernelzoo.operations`), and
its scalars by name; returns a launch."""


class Movable:
    """A launch whose only memory is that of its inputs and outputs, and which can run on other addresses of the same
    layout.

    ``at`` takes the addresses of the canonical tensors, inputs first. A backend keeps such launches by layout, and
    spares a repeated call all the work of binding.

    Raises InputTypeError, OutputError when it is called after the storage of a tensor was freed or shrunk.
    """

    __slots__ = ("_memory", "at", "outputs", "tensors")

    def __init__(self, at: Callable[..., None], *tensors: torch.Tensor) -> None:
        self.at, self.tensors, self._memory = at, tensors, Bound(tensors)
        self.outputs = 1
        """How many tensors are outputs, the last ones."""

    def __call__(self) -> None:
        memory = self._memory
        if len(memory.ends) != 2:
            self.at(*memory.addresses(self.outputs))
            return
        (x, out), (x_offset, out_offset), (x_end, out_end) = memory.storages, memory.offsets, memory.ends
        if len(x) < x_end or len(out) < out_end:  # the same in half the time
            raise memory.lost(self.outputs)
        self.at(x.data_ptr() + x_offset, out.data_ptr() + out_offset)


class Guarded:
    """A launch of any kind, which raises as :class:`Movable` does. ``anew``: it looks at its tensors anew at each call,
    as one does that copies tensors of the caller's, which may have been set to other storages since."""

    __slots__ = ("_launch", "_memory", "_outputs", "_tensors")

    def __init__(self, launch: Launch, tensors: Sequence[torch.Tensor], outputs: int, anew: bool) -> None:
        self._outputs, self._memory, self._tensors = outputs, Bound(tensors), tensors if anew else None
        self._launch: Callable[[], Any] = launch

    def __call__(self) -> Any:
        memory = self._memory if self._tensors is None else Bound(self._tensors)
        memory.check(self._outputs)
        return self._launch()  # nothing, of a launch; a check says of what is returned that it is none


def guarded(launch: Launch, tensors: Sequence[torch.Tensor], outputs: int, anew: bool = False) -> Launch:
    """The launch of some tensors, of which so many are outputs, the last ones: one that raises as a Movable does.
    Not of tensors that have no memory, as torch has them where it traces."""
    import torch

    if isinstance(launch, Movable):
        launch.outputs = outputs
        return launch
    plain = torch.Tensor.__torch_dispatch__
    imagined = any(x.is_meta or type(x).__torch_dispatch__ is not plain or not x.numel() for x in tensors)
    return launch if imagined or isinstance(launch, Guarded) else Guarded(launch, tensors, outputs, anew)


class WithWorkspace(Movable):
    """A launch that can run on other addresses, and has memory of its own besides, ready on the stream of its bind.

    A backend keeps it for calls on that stream alone, where they come one after the other.
    """

    __slots__ = ("_launch", "workspace")

    def __init__(self, at: Callable[..., None], *tensors: torch.Tensor, workspace: Sequence[torch.Tensor]) -> None:
        super().__init__(at, *tensors)
        self.workspace = tuple(workspace)
        self._launch = owning(super().__call__, *workspace)

    def __call__(self) -> None:
        self._launch()


class Copied:
    """A launch that copies tensors whose layouts it can't take: a repeated call makes such a copy itself."""

    __slots__ = ("_launch",)

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def __call__(self) -> None:
        self._launch()


class OnStreams:
    """Launches of one layout, each with a workspace for one stream. Called with addresses, it launches that of the
    current stream and returns None; or it returns True where there is none, and in a CUDA graph's capture, whose memory
    must be the graph's own."""

    __slots__ = ("_capturing", "_current", "_device", "_kept", "_workspaces")

    def __init__(self, device: int) -> None:
        import torch

        from kernelzoo.torch_private import current_stream

        self._kept: dict[int, Callable[..., None]] = {}
        self._workspaces: dict[int, tuple[torch.Tensor, ...]] = {}
        self._device = device
        self._current, self._capturing = current_stream, torch.cuda.is_current_stream_capturing

    def keep(self, launch: WithWorkspace) -> None:
        """Keep a launch for the stream that is current, on which it was bound."""
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
    """Drop a value, so that an expression is a launch."""


def sequence(*launches: Launch | None) -> Launch:
    """One launch after the other; None is no launch. Kernels of the same tensors and workspace are one such launch."""
    steps = [launch for launch in launches if launch is not None]
    if len(steps) == 1:
        return steps[0]
    placed = [step for step in steps if isinstance(step, WithWorkspace)]
    if steps and len(placed) == len(steps) and len({tuple(map(id, step.tensors)) for step in placed}) == 1:
        workspace = {id(tensor): tensor for step in placed for tensor in step.workspace}
        at = in_turn(*(step.at for step in placed))
        return WithWorkspace(at, *placed[0].tensors, workspace=tuple(workspace.values()))

    def launch() -> None:
        for step in steps:
            step()

    return launch


def in_turn(*steps: Callable[..., None]) -> Callable[..., None]:
    """Kernels that hand on a workspace: two threads may launch them on one stream, and not between each other's."""
    lock = Lock()

    def at(*addresses: int) -> None:
        with lock:
            for step in steps:
                step(*addresses)

    return at


def through(stage: torch.Tensor, first: Launch, rest: Launch) -> Launch:
    """A launch into memory of our own, and the rest out of it: on any addresses, where both are."""
    if not (isinstance(first, Movable) and isinstance(rest, Movable)):
        return owning(sequence(first, rest), stage)
    into, out_of = first.at, rest.at
    # Asked for its address each time, since a launch on the host is all that holds it.
    at = in_turn(lambda x, out: into(x, stage.data_ptr()), lambda x, out: out_of(stage.data_ptr(), out))
    own = [tensor for step in (first, rest) if isinstance(step, WithWorkspace) for tensor in step.workspace]
    return WithWorkspace(at, first.tensors[0], rest.tensors[-1], workspace=(stage, *own))


def in_halves(bind: Callable[..., Launch], tensors: Sequence[torch.Tensor], axes: Sequence[tuple[str, ...]]) -> Launch:
    """Canonical tensors bound as two, for a grid that has no blocks for so many rows. ``axes`` names those of each."""
    x = tensors[0]
    axis = 0 if x.size(0) >= x.size(2) else 2
    half = x.size(axis) // 512 * 256  # where one half is aligned, so is the other
    name = ("outer", "", "inner")[axis]
    parts = ((0, half), (half, x.size(axis) - half))

    def part(tensor: torch.Tensor, names: tuple[str, ...], start: int, size: int) -> torch.Tensor:
        return tensor.narrow(names.index(name), start, size) if name in names else tensor

    return sequence(*(bind(*(part(t, names, *p) for t, names in zip(tensors, axes, strict=True))) for p in parts))


def owning(launch: Launch, *tensors: torch.Tensor) -> Launch:
    """The launch, with tensors of its own that are ready, and safe, on whatever stream it runs on.

    What a bind enqueues, the zeroing of a counter say, it enqueues on the stream that is current then, and that stream
    alone is what torch's allocator asks before it gives the memory to someone else, before the bind and after it. So a
    launch on another stream first waits for that one, once, and has the memory marked as in use there. In a CUDA graph
    it can't wait for what is outside: the bind must have ended, which ``torch.cuda.graph`` sees to.
    """
    if not tensors[0].is_cuda:
        return launch
    import torch

    from kernelzoo.torch_private import current_stream

    device: int = tensors[0].get_device()
    home: int = current_stream(device)
    ready = {home}

    def lend(stream: int) -> None:
        here = torch.cuda.current_stream(device)
        if not torch.cuda.is_current_stream_capturing():
            # 0 is the default stream to the driver, and to torch.cuda.ExternalStream a new one.
            there = torch.cuda.ExternalStream(home, device) if home else torch.cuda.default_stream(device)  # type: ignore[no-untyped-call]
            here.wait_stream(there)
            ready.add(stream)
        for tensor in tensors:
            tensor.record_stream(here)

    def launch_owning() -> None:
        stream: int = current_stream(device)
        if stream not in ready:
            lend(stream)
        launch()

    return launch_owning


# --- Recording: what would be launched, without a device ------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled for the device of its bind, and what its language says of it."""

    name: str
    """As the source calls it, with its template's arguments if it is one."""
    language: str
    source: str
    file: str
    """Path of the source."""
    line: int
    """Where in that file the kernel begins, from 1."""
    constants: dict[str, Any]
    """What the launch table chose, by the source's own names."""
    symbol: str
    """The kernel's entry in the machine code."""
    binary: bytes = b""
    """Machine code: a cubin, or AMD's hsaco."""
    registers: int | None = None
    """Per thread; None for a host's kernel."""
    local_bytes: int = 0
    """Stack and local memory per thread."""
    shared_bytes: int = 0
    """Static, per block."""
    ptx: str | None = None
    assembly: str | None = None
    """Text of the machine code where the language has it; else it is disassembled."""
    host: tuple[str, str] = ("", "")
    """Of a host's kernel, the architecture and the processor that it is compiled for."""


@dataclass(frozen=True)
class Step:
    """One kernel of a launch as a bind has planned it."""

    kernel: str
    """Which kernel, with what the compiler is told of it."""
    grid: tuple[int, ...]
    threads: int
    """In a block."""
    shared_bytes: int = 0
    """Dynamic shared memory of a block, as far as the plan says it."""
    cluster: int = 1
    cooperative: bool = False
    """Whether all blocks must run at once."""
    arguments: tuple[Any, ...] = ()
    """What the plan passes to it beside tensors."""
    build: Callable[[], Compiled] | None = field(default=None, compare=False, repr=False)
    """Compiles the kernel for the device of the bind; None where the recording doesn't ask for it."""
    constants: tuple[Any, ...] = ()
    """What it is compiled for beside what ``kernel`` says."""
    block: tuple[int, ...] = ()
    """Threads along each axis of a block, of one that has several."""


class Recording:
    """What is bound while a recording is in force: its kernels' steps, in order. Nothing is loaded and nothing runs."""

    def __init__(self, compiles: bool) -> None:
        self.compiles = compiles
        """Whether steps are compiled later on, so that a plan may ask what its kernel takes of the device."""
        self.steps: list[Any] = []

    def launch(self, *steps: Step) -> Launch:
        """The launch of some steps: it adds them to the recording. Plans alone are not launched: they are added now."""
        if not self.compiles:
            self.steps += steps
            return sequence()
        return lambda: self.steps.extend(steps)


recording: ContextVar[Recording | None] = ContextVar("recording", default=None)
"""The recording that takes the steps of what this thread binds; every language's launch helper asks it."""


@contextmanager
def recorded(*, compiles: bool = False) -> Iterator[list[Any]]:
    """Within the context, what this thread binds is recorded; the list handed out holds the steps.

    With ``compiles`` a launch adds its steps when it is called; without, a bind adds them, and its launch does nothing.
    """
    made = Recording(compiles)
    token = recording.set(made)
    try:
        yield made.steps
    finally:
        recording.reset(token)
