"""Turn a plan into a launch: kernels, their grids and a workspace.

A *plan* depends only on the device and the tensors' layouts. It is cached, with its kernels loaded. Binding adds the
tensors' addresses. While a launch is recorded (``kernelzoo.launch``), no kernel is loaded.
"""

import ctypes
import inspect
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial, wraps
from pathlib import Path
from typing import Any, Literal, TypeAlias

import cupy
import torch

import kernelzoo.kernels.cupy as package
from kernelzoo import device as devices
from kernelzoo import tables
from kernelzoo.device import Device, make_gpu_current, occupancy
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.shared import driver
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters
from kernelzoo.launch import Bind, Launch, RebindableLaunch, Recording, WorkspaceLaunch, chain_under_lock, recording
from kernelzoo.launch import LaunchStep as RecordedStep
from kernelzoo.layout import Layout, Strides, layouts_of

I32, I64, F64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_double

Argument: TypeAlias = Literal["partial", "counters"] | tuple[Callable[[Any], Any], float]
"""A kernel's argument after the problem: the name of a part of the workspace, or (C type, number)."""


@dataclass(frozen=True)
class Step:
    """One kernel of a plan: a template instance, its grid, and the arguments after its struct of tensors and layout."""

    kernel: str
    blocks: int
    threads: int
    arguments: tuple[Argument, ...] = ()
    shared_bytes: int = 0  # dynamic shared memory
    grid_y: int = 1
    resident: bool = False  # whether to limit ``blocks`` to the number that can be resident at once
    cooperative: bool = False  # whether blocks wait for each other, so that all must be resident
    cluster: int = 1  # blocks per cluster


@dataclass(frozen=True)
class Plan:
    """The steps of a launch, and the sizes of their common workspace."""

    layout: Layout  # the problem's shape and strides, as the kernels get them
    steps: tuple[Step, ...]
    partial_bytes: int = 0
    counter_bytes: int = 0  # zeroed when bound; each launch resets it for the next one, if needed
    others: tuple[Strides, ...] = ()  # strides of the tensors between the first and the output


# A planner takes the rows, the strides of each tensor between the first and the last, and scalars by name. If it has a
# parameter ``device`` or ``knobs`` (of the active launch table), it gets that too. May raise UnsupportedProblemError.
Planner: TypeAlias = Callable[..., Plan]
At: TypeAlias = Callable[..., None]  # launches a kernel on the canonical tensors, given their addresses
Workspace: TypeAlias = dict[str, torch.Tensor]  # a launch's memory for partial results and counters, by argument name


def device_of(x: torch.Tensor) -> Device:
    """Return the device on which kernels for x run: a GPU, or the tests' emulator of one."""
    device: Device = devices.of(x) if package.stand_in is None else package.stand_in.device_of(x)
    return device


def plan_once(knobs_class: type[Any] | None = None) -> Callable[[Planner], Bind]:
    """Return a decorator that turns a planner into a function from tensors to a launch. The planner gets an instance of
    ``knobs_class``, its tuned numbers, as ``knobs``. The kernels are in the .cu file next to the planner's file."""

    def decorate(plan: Planner) -> Bind:
        file, wanted = Path(inspect.getfile(plan)).with_suffix(".cu"), inspect.signature(plan).parameters

        @wraps(plan)
        def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
            x, *between, out = tensors
            record, device = recording.get(), device_of(x)
            rows, others = layouts_of(x, out, *between)
            if knobs_class is not None:
                scalars["knobs"] = tables.of(knobs_class, device.index)
            if "device" in wanted:
                scalars["device"] = device
            if record is not None:
                steps = plan(rows, *others, **scalars).steps
                return record.make_launch(*(_record_step(file, step, device, record) for step in steps))
            return _make_launcher(package.stand_in, file, plan, device, tuple(scalars.items()), rows, *others)(*tensors)

        return bind

    return decorate


# --- From a plan to its launches -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _make_launcher(
    emulator: Any, file: Path, planner: Planner, device: Device, scalars: tuple[tuple[str, Any], ...], *problem: Any
) -> Callable[..., Launch]:
    """Compile and load a plan's kernels. Return a function that makes a launch from tensors."""
    plan = planner(*problem, **dict(scalars))
    load = _load_kernel if emulator is None else emulator.loaded
    steps = tuple(_step_launcher(load(file, plan, step, device), plan, step) for step in plan.steps)
    if plan.partial_bytes or plan.counter_bytes:
        return partial(_allocate_and_launch, plan, steps)
    return partial(RebindableLaunch, _join_steps(steps, {}))


def _allocate_and_launch(plan: Plan, steps: tuple[Callable[[Workspace], At], ...], *tensors: torch.Tensor) -> Launch:
    """Allocate a plan's workspace, and return a launch of its steps on the tensors."""
    workspace: Workspace = {}
    device = tensors[0].device
    if plan.partial_bytes:
        workspace["partial"] = torch.empty(plan.partial_bytes, dtype=torch.uint8, device=device)
    if plan.counter_bytes:
        workspace["counters"] = torch.zeros(plan.counter_bytes, dtype=torch.uint8, device=device)
    return WorkspaceLaunch(_join_steps(steps, workspace), *tensors, workspace=tuple(workspace.values()))


def _step_launcher(kernel: Any, plan: Plan, step: Step) -> Callable[[Workspace], At]:
    """Return a function that takes a workspace and returns a launcher of the step's loaded kernel."""
    most = kernel.max_resident_blocks(step.threads, step.shared_bytes) if step.resident else step.blocks
    blocks = min(step.blocks, most)
    parameters, make = _parameters(plan, step), kernel.launcher(_launch_shape(step, blocks))

    def launch(workspace: Workspace) -> At:
        words = list(parameters.words)
        for place, argument in zip(parameters.starts[1:], step.arguments, strict=True):
            if isinstance(argument, str) and argument in workspace:
                words[place] = workspace[argument].data_ptr()
        at: At = make(Parameters(tuple(words), parameters.starts))
        return at

    return launch


def _join_steps(steps: tuple[Callable[[Workspace], At], ...], workspace: Workspace) -> At:
    first, *others = (step(workspace) for step in steps)
    return chain_under_lock(first, *others) if others else first


def _launch_shape(step: Step, blocks: int) -> LaunchShape:
    return LaunchShape(blocks, step.threads, step.shared_bytes, step.cluster, step.cooperative, step.grid_y)


PROBLEM = ("rows", "n", "inner", "x_outer", "x_n", "x_inner", "out_outer", "out_n", "out_inner")
"""Fields of ``struct Layout`` in device_functions.cuh, without ``inner_inverse``. A kernel's problem begins with the
tensors' addresses and ends with the strides of the tensors between the first and the output."""


def _parameters(plan: Plan, step: Step) -> Parameters:
    """Return a step's parameters. Tensors' addresses are 0, and each launch replaces them."""
    layout, others = plan.layout, plan.others
    numbers = (layout.outer * layout.inner, *(getattr(layout, name) for name in PROBLEM[1:]))
    strides = [stride for tensor in others for stride in (tensor.outer, tensor.n, tensor.inner)]
    addresses = (0,) * (2 + len(others))
    inverse = 1 / max(1, layout.inner)
    problem = struct.pack(f"<{len(addresses)}Q9qd{len(strides)}q", *addresses, *numbers, inverse, *strides)
    following = (bytes(8) if isinstance(a, str) else bytes(a[0](a[1])) for a in step.arguments)
    return driver.parameter_words([problem, *following])


def _record_step(file: Path, step: Step, device: Device, record: Recording) -> RecordedStep:
    compiled, blocks = partial(compiler.compile_instance, file, step.kernel, device.capability), step.blocks
    if step.resident and record.can_compile:
        kernel = compiled()
        assert kernel.registers is not None
        per_sm = occupancy(device, kernel.registers, step.threads, kernel.shared_bytes + step.shared_bytes)
        blocks = min(blocks, device.multiprocessors * max(1, per_sm.blocks))
    return RecordedStep(
        step.kernel,
        driver.grid_axes(_launch_shape(step, blocks)),
        step.threads,
        step.shared_bytes,
        step.cluster,
        step.cooperative,
        tuple(a if isinstance(a, str) else a[1] for a in step.arguments),
        compiled if record.can_compile else None,
    )


# --- The physical device --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LoadedKernel:
    function: int
    device: Device

    def max_resident_blocks(self, threads: int, shared_bytes: int) -> int:
        with make_gpu_current(self.device.index):
            return driver.max_resident_blocks(self.function, threads, shared_bytes, self.device)

    def launcher(self, shape: LaunchShape) -> Callable[[Parameters], At]:
        """Return a function from parameters to a launcher. A launcher inserts the tensors' addresses, and launches."""
        with make_gpu_current(self.device.index):
            driver.raise_launch_limits(self.function, shape)
        return lambda parameters: driver.make_launcher(self.function, shape, parameters, self.device)


def _load_kernel(file: Path, plan: Plan, step: Step, device: Device) -> _LoadedKernel:
    """Load a step's kernel. CuPy compiles the kernel from a .cu file, and caches the result on disk."""
    with _compiling:  # once per kernel and device, even if several threads load at once
        return _LoadedKernel(int(_loaded_function(file, step.kernel, device.index).ptr), device)


_compiling = threading.RLock()


@cache  # holds a reference: CuPy unloads a module when its last function is freed
def _loaded_function(file: Path, kernel: str, index: int) -> Any:
    with make_gpu_current(index), cupy.cuda.Device(index):
        name = compiler.check_kernel_name(kernel)
        module = cupy.RawModule(code=compiler.full_source(file), options=compiler.OPTIONS, name_expressions=(name,))
        return module.get_function(kernel).kernel
