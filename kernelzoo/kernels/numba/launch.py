"""From a kernel written in Numba to a launch on torch's stream: planned and compiled once, packed at bind.

Numba's own way, ``kernel[grid, block, stream](tensors)``, asks each tensor for its array interface at every call; here
a launch is one ``cuLaunchKernelEx``, see :mod:`kernelzoo.kernels.shared.driver`. bench/test_submit.py measures both.
Under a recording (:mod:`kernelzoo.launch`) nothing runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any, TypeVar

import torch

from kernelzoo import device as devices
from kernelzoo import tables
from kernelzoo.device import Device, attached, is_batch_invariant, occupancy
from kernelzoo.errors import GridTooLargeError, UnsupportedProblemError
from kernelzoo.kernels.numba.source import Source, capability_of, compiled, compiling, inspected, kernel
from kernelzoo.kernels.numba.tiling import Tiling, View, view
from kernelzoo.kernels.shared import driver, programs
from kernelzoo.kernels.shared.driver import Parameters, Shape
from kernelzoo.launch import Bind, Launch, Recording, Step, recording
from kernelzoo.layout import cdiv

__all__ = ["BindView", "Source", "Tiling", "View", "kernel", "over_rows", "planned"]
"""What every form's file begins with."""

_STATIC = 2048
"""Bytes of shared memory that a kernel may declare itself, which dynamic shared memory leaves to it."""


def has_clusters(device: Device) -> bool:
    """Whether blocks can reach each other's shared memory."""
    return device.capability >= 90


def shared_bytes(device: Device) -> int:
    """Dynamic shared memory that a block can have beside what its kernel declares."""
    return device.shared_per_block - _STATIC


# --- Plans ----------------------------------------------------------------------------------------------------------

T = TypeVar("T")
BindView = Callable[..., Launch]
"""Takes the canonical tensors, of the looks it was made for, and returns a launch."""
Plan = Callable[..., BindView]
"""All that a form decides by the view of a problem, its part of the launch table if any, and scalars by name."""
KernelOf = Callable[[str, Tiling], Source]


def planned(table: type[Any] | None = None) -> Callable[[Plan], Bind]:
    """The bind of a form whose plan is the decorated function: made once for all problems that look the same."""

    def decorate(plan: Plan) -> Bind:
        @wraps(plan)
        def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
            return settled(plan, table, *tensors, **scalars)(*tensors)

        return bind

    return decorate


def by_view(table: type[Any] | None = None) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """The choice among forms that the decorated function makes by the view of a problem, and its launch table if any:
    once for all problems that look the same."""

    def decorate(decide: Callable[..., str]) -> Callable[..., str]:
        @wraps(decide)
        def choose(*tensors: torch.Tensor, **scalars: Any) -> str:
            return settled(decide, table, *tensors)

        return choose

    return decorate


def settled(decide: Callable[..., T], table: type[Any] | None, *tensors: torch.Tensor, **scalars: Any) -> T:
    """What is decided by the view of canonical tensors, the launch table and scalars, once for all that look alike."""
    *inputs, out = tensors
    device = devices.of(out)
    index = device.index
    numbers = () if table is None else (tables.of(table, index),)
    if recording.get() is not None or index < 0:
        return decide(view(device, *inputs, out=out), *numbers, **scalars)
    layout = [(tensor.stride(), tensor.data_ptr() % 16) for tensor in tensors]
    dtypes = inputs[0].dtype, out.dtype
    key = decide, numbers, index, dtypes, is_batch_invariant(), inputs[0].shape, *layout, *scalars.items()
    found: T | None = _settled.get(key)
    if found is None:
        with compiling, attached(index):
            found = _settled.get(key)
            if found is None:
                if len(_settled) >= SETTLED:
                    _settled.clear()
                found = _settled[key] = decide(view(device, *inputs, out=out), *numbers, **scalars)
    return found


SETTLED = 4096
"""Kept at most; some hundred bytes each."""
_settled: dict[tuple[object, ...], Any] = {}


# --- Kernels --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A kernel on a device, or in what takes its place."""

    source: Source

    def resident(self, threads: int) -> int:
        """Blocks of so many threads that the device can hold at once."""
        raise NotImplementedError

    def bound(self, shape: Shape, integers: tuple[int, ...]) -> BindView:
        """What a launch of that shape, with those integers after its pointers, lacks: its tensors."""
        raise NotImplementedError

    def call(
        self, grid: int, *integers: int, threads: int = 0, shared: int = 0, cluster: int = 1, cooperative: bool = False
    ) -> BindView:
        """A call over ``grid`` blocks that lacks only its tensors; ``threads`` per block, if not as many as it was
        compiled for; ``shared`` bytes of dynamic shared memory; ``cooperative`` if blocks wait for each other."""
        return self.bound(Shape(grid, threads or self.source.threads, shared, cluster, cooperative), integers)

    def call_with_workspace(self, numbers: int, counters: int, *arguments: int, **how: Any) -> BindView:
        """A call of a kernel that takes, before out, so many numbers, and so many counters, which begin at 0."""
        call = self.call(*arguments, **how)
        *_, number, counter, _ = (getattr(torch, str(kind), None) for kind in self.source.pointees)

        def bind(*tensors: torch.Tensor) -> Launch:
            *inputs, out = tensors
            workspace = torch.empty(numbers, dtype=number, device=out.device)
            zeros = torch.zeros(counters, dtype=counter, device=out.device)
            return call(*inputs, workspace, zeros, out)

        return bind


@dataclass(frozen=True)
class Loaded(Kernel):
    """A kernel on a device that is here."""

    device: Device
    function: int
    """The driver's handle."""

    def resident(self, threads: int) -> int:
        """The device's SMs times the kernel's occupancy."""
        return driver.blocks_at_once(self.function, threads, 0, self.device)

    def bound(self, shape: Shape, integers: tuple[int, ...]) -> BindView:
        """Tensors are passed by their address, and kept alive by the launch."""
        driver.allow(self.function, shape)
        pointers, inputs = len(self.source.pointees), self.source.inputs
        # As words, the addresses of inputs and output come first, and then those of the workspace.
        starts = (*range(inputs), *range(inputs + 1, pointers), inputs, *range(pointers, pointers + len(integers)))

        def bind(*tensors: torch.Tensor) -> Launch:
            *canonical, out = *tensors[:inputs], tensors[-1]
            workspace = tensors[inputs:-1]
            words = *[0] * (inputs + 1), *(tensor.data_ptr() for tensor in workspace), *integers
            launched = self.function, shape, Parameters(words, starts)
            return programs.launch_of(*launched, (*canonical, out), workspace, self.device)

        return bind


@dataclass(frozen=True)
class Recorded(Kernel):
    """A kernel that is not loaded: its launches are recorded."""

    device: Device
    recording: Recording

    def resident(self, threads: int) -> int:
        """By the occupancy of the compiled kernel, or one block where nothing is compiled."""
        if not self.recording.compiles:
            return 1
        taken = inspected(self.source, capability_of(self.device))
        blocks = occupancy(self.device, taken.registers or 0, threads, taken.shared_bytes).blocks
        return self.device.multiprocessors * max(1, blocks)

    def bound(self, shape: Shape, integers: tuple[int, ...]) -> BindView:
        build = partial(inspected, self.source, capability_of(self.device)) if self.recording.compiles else None
        how = shape.threads, shape.shared_bytes, shape.cluster, shape.cooperative
        step = Step(self.source.name, (shape.grid,), *how, integers, build)
        return lambda *tensors: self.recording.launch(step)


def prepare(source: Source, device: Device) -> Kernel:
    """The kernel on that device, compiled on first use and kept. Safe from several threads."""
    recorder = recording.get()
    if recorder is not None:
        return Recorded(source, device, recorder)
    with compiling:
        return _loaded(source, device)


@cache
def _loaded(source: Source, device: Device) -> Loaded:
    name, binary = compiled(source, capability_of(device))
    return Loaded(source, device, driver.load(binary, name, device.index))


def within_grid(id: str, blocks: int) -> int:
    """That number of blocks. Raises GridTooLargeError if a launch can't have so many."""
    if blocks > driver.MAX_GRID_X:
        raise GridTooLargeError(id, blocks, driver.MAX_GRID_X)
    return blocks


SPREAD_BLOCKS = 4
"""On an SM: a thread takes several rows only where there are as many blocks all the same."""


def over_rows(
    id: str, kernel: KernelOf, tiling: Tiling | None, v: View, spread: bool = False, resident: bool = False
) -> BindView:
    """A call of a kernel of that tiling, with as many blocks as it takes to cover the rows.

    With ``spread``, fewer rows to a thread where those make too few blocks; with ``resident``, no more blocks than the
    device holds at once. Raises UnsupportedProblemError if there is no tiling.
    """
    if tiling is None:
        raise UnsupportedProblemError(id, f"rows of {v.n} elements are more than registers hold")
    if spread:
        tiling = tiling.spread_over(v.planned, SPREAD_BLOCKS * v.device.multiprocessors)
    loaded, threads = prepare(kernel(v.dtype, tiling), v.device), tiling.lanes_for(v.n) * tiling.rows
    grid = cdiv(v.total, tiling.rows * tiling.stack)
    if resident:
        grid = min(grid, loaded.resident(threads))
    return loaded.call(within_grid(id, grid), *v.offsets, threads=threads)
