"""From a form's plan to a launch: which kernels run, on what grid, with what workspace.

A *plan* depends on dtype, shape, strides, 16-byte alignment and the device alone and is kept, with its kernels compiled
and loaded; binding adds the pointers. Within a recording (``kernelzoo.launch``) nothing is loaded, and the plan is all.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import cupy
import torch

import kernelzoo.kernels.cupy as package
from kernelzoo import device as devices
from kernelzoo import tables
from kernelzoo.device import Device, attached, occupancy
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.cupy.rows import Layout
from kernelzoo.kernels.shared import driver
from kernelzoo.kernels.shared.driver import Parameters, Shape
from kernelzoo.launch import Launch, Movable, Recording, owning, recording
from kernelzoo.launch import Step as RecordedStep
from kernelzoo.layout import Rows, rows_of

Argument: TypeAlias = 'Literal["partial", "counters"] | tuple[type[ctypes.c_int32 | ctypes.c_int64], int]'


@dataclass(frozen=True)
class Step:
    """One kernel of a plan: a template instance, its grid and what it takes after the problem itself."""

    kernel: str
    blocks: int
    threads: int
    arguments: tuple[Argument, ...] = ()
    shared_bytes: int = 0
    """Dynamic shared memory."""
    grid_y: int = 1
    resident: bool = False
    """Never more blocks than the device can run at once."""
    cooperative: bool = False
    """The blocks wait for each other, so all of them must run at once."""
    cluster: int = 1


@dataclass(frozen=True)
class Plan:
    """The steps of a launch, and the workspace that they share."""

    layout: Layout
    """The problem as the kernels see it."""
    steps: tuple[Step, ...]
    partial_bytes: int = 0
    counter_bytes: int = 0
    """Zeroed when bound; the kernels leave it ready for the next launch."""


Planner: TypeAlias = Callable[[Rows, Device, Any], Plan]
"""Says how a form takes a problem on a device, by its numbers of the launch table in force. Raises
UnsupportedProblemError if it can't."""

At: TypeAlias = Callable[[int, int], None]
"""Launches on the addresses of an x and an out."""


def device_of(x: torch.Tensor) -> Device:
    """The device that a kernel on x runs on; a chooser asks this too."""
    return _machine().device_of(x)


def bind(file: str, planner: Planner, numbers: type[Any] | None, x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Bind canonical ``(x, out)`` to the plan that the planner makes of them.

    file: the form's own, ``__file__``, whose kernels stand in the .cu file beside it. numbers: its part of the launch
    table, None if it has none.
    """
    machine = _machine()
    device = machine.device_of(x)
    table = tables.of(numbers, device.index) if numbers is not None else None
    rows = rows_of(x, out)
    record = recording.get()
    if record is not None:
        steps = planner(rows, device, table).steps
        return record.launch(*(_recorded(_code(file), step, device, record) for step in steps))
    ready = _ready(machine, file, planner, table, rows, device)
    if ready.at is not None:  # the common case, kept short: no workspace
        return Movable(ready.at, x, out)
    workspace: dict[str, torch.Tensor] = {}
    if ready.partial_bytes:
        workspace["partial"] = torch.empty(ready.partial_bytes, dtype=torch.uint8, device=x.device)
    if ready.counter_bytes:
        workspace["counters"] = torch.zeros(ready.counter_bytes, dtype=torch.uint8, device=x.device)
    launches = [step.launch(workspace) for step in ready.steps]
    x_address, out_address = x.data_ptr(), out.data_ptr()

    def launch(held: object = (x, out, workspace)) -> None:
        for at in launches:
            at(x_address, out_address)

    return owning(launch, *workspace.values())


def _code(file: str) -> Path:
    """The CUDA C++ of a form's file."""
    return Path(file).with_suffix(".cu")


# --- A plan made ready ----------------------------------------------------------------------------------------------


class Kernel(Protocol):
    """A kernel that is loaded."""

    def blocks_at_once(self, threads: int, shared_bytes: int) -> int:
        """Blocks that the device runs at once."""

    def launcher(self, shape: Shape) -> Callable[[Parameters], At]:
        """What makes a launch on any x and out of one layout, of the parameters without them."""


class Machine(Protocol):
    """What runs kernels. Ours is CuPy's compiler and NVIDIA's driver; ``stand_in`` of this package takes its place."""

    def __hash__(self) -> int:
        """What is made ready is kept by the machine."""

    def device_of(self, x: torch.Tensor) -> Device:
        """The device that a kernel on x runs on."""

    def loaded(self, file: Path, plan: Plan, step: Step, device: Device) -> Kernel:
        """The kernel of a plan's step, from the CUDA C++ of a file, once for each device."""


@dataclass(frozen=True)
class _ReadyStep:
    """A step whose kernel is loaded."""

    make: Callable[[Parameters], At]
    parameters: Parameters
    """Without pointers."""
    pointers: tuple[tuple[int, str], ...]
    """Which words of the parameters point to which part of the workspace."""

    def launch(self, workspace: dict[str, torch.Tensor]) -> At:
        words = list(self.parameters.words)
        for place, name in self.pointers:
            if name in workspace:
                words[place] = workspace[name].data_ptr()
        return self.make(Parameters(tuple(words), self.parameters.starts))


@dataclass(frozen=True)
class _Ready:
    """A plan whose kernels are compiled and loaded."""

    steps: tuple[_ReadyStep, ...]
    partial_bytes: int
    counter_bytes: int
    at: At | None
    """Launches all of it, where it needs no workspace."""


@lru_cache(maxsize=4096)
def _ready(machine: Machine, file: str, planner: Planner, table: Any, rows: Rows, device: Device) -> _Ready:
    plan = planner(rows, device, table)
    steps = tuple(_ready_step(machine.loaded(_code(file), plan, step, device), plan, step) for step in plan.steps)
    at = None
    if not (plan.partial_bytes or plan.counter_bytes):
        launches = [step.launch({}) for step in steps]
        at = launches[0] if len(launches) == 1 else _one_after_the_other(launches)
    return _Ready(steps, plan.partial_bytes, plan.counter_bytes, at)


def _ready_step(kernel: Kernel, plan: Plan, step: Step) -> _ReadyStep:
    blocks = step.blocks
    if step.resident:
        blocks = min(blocks, kernel.blocks_at_once(step.threads, step.shared_bytes))
    parameters = _parameters(plan.layout, step)
    places = zip(parameters.starts[1:], step.arguments, strict=True)
    pointers = tuple((place, a) for place, a in places if isinstance(a, str))
    return _ReadyStep(kernel.launcher(_shape(step, blocks)), parameters, pointers)


def _one_after_the_other(launches: list[At]) -> At:
    def at(x: int, out: int) -> None:
        for launch in launches:
            launch(x, out)

    return at


def _shape(step: Step, blocks: int) -> Shape:
    return Shape(blocks, step.threads, step.shared_bytes, step.cluster, step.cooperative, step.grid_y)


PROBLEM = ("rows", "n", "inner", "x_outer", "x_n", "x_inner", "out_outer", "out_n", "out_inner")
"""Fields of ``struct Problem`` of row.cuh between its pointers, x and out, and ``inner_inverse``."""


def _parameters(layout: Layout, step: Step) -> Parameters:
    """A step's parameters, whose pointers are left open."""
    numbers = (layout.outer * layout.inner, *(getattr(layout, name) for name in PROBLEM[1:]))
    problem = struct.pack("<2Q9qd", 0, 0, *numbers, 1 / layout.inner)
    others = (bytes(8) if isinstance(a, str) else bytes(a[0](a[1])) for a in step.arguments)
    return driver.parameter_words([problem, *others])


def _recorded(file: Path, step: Step, device: Device, record: Recording) -> RecordedStep:
    compiled = partial(compiler.compiled, file, step.kernel, device.capability)
    blocks = step.blocks
    if step.resident and record.compiles:
        made = compiled()
        assert made.registers is not None
        held = occupancy(device, made.registers, step.threads, made.shared_bytes + step.shared_bytes)
        blocks = min(blocks, device.multiprocessors * max(1, held.blocks))
    return RecordedStep(
        step.kernel,
        driver.grid_axes(_shape(step, blocks)),
        step.threads,
        step.shared_bytes,
        step.cluster,
        step.cooperative,
        tuple(a if isinstance(a, str) else a[1] for a in step.arguments),
        compiled if record.compiles else None,
    )


# --- The device that is here ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loaded:
    function: int
    device: Device

    def blocks_at_once(self, threads: int, shared_bytes: int) -> int:
        with attached(self.device.index):
            return driver.blocks_at_once(self.function, threads, shared_bytes, self.device)

    def launcher(self, shape: Shape) -> Callable[[Parameters], At]:
        with attached(self.device.index):
            driver.allow(self.function, shape)
        return lambda parameters: driver.movable(self.function, shape, parameters, self.device)


class _Here:
    """CuPy compiles, and keeps what it compiled on disk; NVIDIA's driver launches."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: list[object] = []
        self._function = cache(self._compiled)

    def device_of(self, x: torch.Tensor) -> Device:
        return devices.of(x)

    def loaded(self, file: Path, plan: Plan, step: Step, device: Device) -> _Loaded:
        with self._lock:  # once per kernel and device, also when several threads come first
            return _Loaded(self._function(file, step.kernel, device.index), device)

    def _compiled(self, file: Path, kernel: str, index: int) -> int:
        with attached(index), cupy.cuda.Device(index):
            name = compiler.known(kernel)
            module = cupy.RawModule(code=compiler.source(file), options=compiler.OPTIONS, name_expressions=(name,))
            function = module.get_function(kernel).kernel
        self._kept.append(function)  # a module is unloaded with its last function
        return int(function.ptr)


_here = _Here()


def _machine() -> Machine:
    return _here if package.stand_in is None else package.stand_in
