"""From a plan to a launch: compiles the kernels it names, once per device, and runs them on torch's current stream.

A *plan* is what the planners of softmax.py and min.py answer: which template instances run, on what grid, with
what workspace. It depends on dtype, shape, strides and 16-byte alignment alone and is kept; binding adds the pointers.
"""

import ctypes
import functools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import cupy
import torch
from cupy_backends.cuda.api import driver

from kernelzoo import tables
from kernelzoo.ops import attached, dtype_name
from kernelzoo.registry import Launch, Movable
from kernelzoo.workspace import owning

MAX_GRID_X = 2**31 - 1

PACK_BYTES = 16
"""The widest load or store of one thread."""

C_TYPES = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float",
    "float64": "double",
    "bool": "u8",
    "uint8": "u8",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "i64",
}
"""The kernels' name of each dtype; a bool is a byte, 0 or 1."""


@dataclass(frozen=True)
class Device:
    """What a plan needs to know of a GPU."""

    sms: int
    capability: int
    """Compute capability as one number, 90 for 9.0."""
    shared_bytes: int
    """Shared memory that one block may ask for."""


@dataclass(frozen=True)
class Problem:
    """A canonical problem, less its pointers. ``out_n`` is 0 for a minimum, which has no such axis."""

    dtype: str
    outer: int
    n: int
    inner: int
    x_outer: int
    x_n: int
    x_inner: int
    out_outer: int
    out_n: int
    out_inner: int
    aligned: bool
    """Both tensors start on a 16-byte boundary."""

    @property
    def rows(self) -> int:
        return self.outer * self.inner

    @property
    def itemsize(self) -> int:
        return {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int16": 2, "int32": 4, "int64": 8}.get(
            self.dtype, 1
        )

    @property
    def c_type(self) -> str:
        return C_TYPES[self.dtype]

    @property
    def contiguous_rows(self) -> bool:
        """Each row's elements lie side by side, in the output too."""
        return self.n == 1 or (self.x_n == 1 and self.out_n in (0, 1))

    @property
    def width(self) -> int:
        """Elements of a row that a thread reads at once."""
        return PACK_BYTES // self.itemsize if self.contiguous_rows and self.n > 1 else 1

    @property
    def one_piece(self) -> bool:
        """The rows follow each other without a gap: all of x is one piece of memory, and all of out."""
        return (
            self.contiguous_rows
            and self.inner == 1
            and self.x_outer == self.n
            and self.out_outer == (self.n if self.out_n else 1)
        )

    @property
    def packed(self) -> bool:
        """Every row starts and ends on a 16-byte boundary, so that none has edges."""
        strides = [stride for size, *both in self._row_axes() for stride in both if size > 1]
        return self.width > 1 and self.aligned and all(stride % self.width == 0 for stride in (self.n, *strides))

    def _row_axes(self) -> list[tuple[int, ...]]:
        # A minimum's output is written element by element: where its rows start does not matter.
        outer, inner = (self.outer, self.x_outer), (self.inner, self.x_inner)
        return [(*outer, self.out_outer), (*inner, self.out_inner)] if self.out_n else [outer, inner]

    def by_columns(self) -> "Problem | None":
        """The same problem with the axis of neighbouring rows as ``inner``, if that axis is the one close in memory."""
        if self.contiguous_rows:
            return None
        swap = self.inner == 1 or (self.outer > 1 and self.x_outer < self.x_inner)
        rows = self.outer if swap else self.inner
        stride = self.x_outer if swap else self.x_inner
        if rows == 1 or stride >= self.x_n:
            return None
        if not swap:
            return self
        return Problem(
            self.dtype, self.inner, self.n, self.outer,
            self.x_inner, self.x_n, self.x_outer, self.out_inner, self.out_n, self.out_outer, self.aligned,
        )  # fmt: skip

    @property
    def column_width(self) -> int:
        """For a problem by columns: neighbouring rows that a thread reads at once."""
        width = PACK_BYTES // self.itemsize
        strides = [self.x_n, self.out_n] + (
            [self.x_outer, self.out_outer if self.out_n else 0] if self.outer > 1 else []
        )
        packed = self.x_inner == 1 and self.inner % width == 0 and all(stride % width == 0 for stride in strides)
        return width if packed and self.aligned and (self.out_n == 0 or self.out_inner == 1) else 1


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

    problem: Problem
    steps: tuple[Step, ...]
    partial_bytes: int = 0
    counter_bytes: int = 0
    """Zeroed when bound; the kernels leave it ready for the next launch."""


Planner: TypeAlias = Callable[[Problem, Device, Any], Plan]
"""Says how a variant takes a problem, by the knobs of its operation. Raises UnsupportedProblemError if it can't."""


def bind(file: str, planner: Planner, table: type[Any], x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Bind canonical ``(x, out)`` to the plan that ``planner`` makes of them by the launch table in force, from the
    kernels of ``file``.cu."""
    x_address, out_address, device = x.data_ptr(), out.data_ptr(), x.get_device()
    aligned = (x_address | out_address) % PACK_BYTES == 0
    knobs = tables.of(table, max(device, 0))  # a described device, whose tensors have none, is the first
    steps = tables.noting.get()
    if steps is not None:
        plan = planner(problem_of(x.dtype, x.shape, x.stride(), out.stride(), aligned), device_of(device), knobs)
        steps += map(_noted, plan.steps)
        return lambda: None
    ready = _ready(file, planner, knobs, x.dtype, x.shape, x.stride(), out.stride(), aligned, device)
    if ready.alone is not None:  # the common case, kept short: one kernel, no workspace
        return Movable(ready.alone, x, out)

    geometry = _Geometry.from_buffer_copy(ready.geometry)
    geometry.x, geometry.out = x_address, out_address
    keep: list[Any] = [x, out, geometry]  # what the driver reads at every launch must outlive this call
    workspace = {}
    if ready.partial_bytes:
        workspace["partial"] = torch.empty(ready.partial_bytes, dtype=torch.uint8, device=x.device)
    if ready.counter_bytes:
        workspace["counters"] = torch.zeros(ready.counter_bytes, dtype=torch.uint8, device=x.device)
    address = {name: tensor.data_ptr() for name, tensor in workspace.items()}
    launches = []
    for run, extra in ready.steps:
        values = [ctypes.c_void_p(address.get(value, 0)) if isinstance(value, str) else value for value in extra]
        pointers = (ctypes.c_void_p * (1 + len(values)))(ctypes.addressof(geometry), *map(ctypes.addressof, values))
        keep += (values, pointers)
        launches.append((run, pointers))

    def launch(keep: object = keep) -> None:
        stream = _current_stream(device)
        for run, parameters in launches:
            run(stream, parameters)

    return owning(launch, *workspace.values()) if workspace else launch


class _Geometry(ctypes.Structure):
    """``struct Problem`` of row.cuh."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        *(
            (name, ctypes.c_int64)
            for name in ("rows", "n", "inner", "x_outer", "x_n", "x_inner", "out_outer", "out_n", "out_inner")
        ),
        ("inner_inverse", ctypes.c_double),
    )


Run: TypeAlias = "Callable[[int, object], None]"
"""Takes a stream, and a ctypes array of pointers to the kernel's parameters."""


@dataclass(frozen=True)
class _Ready:
    """A plan whose kernels are compiled and loaded: per step, how to run it, and its further arguments."""

    geometry: bytes
    """A ``_Geometry`` without its pointers."""
    steps: tuple[tuple[Run, tuple[Any, ...]], ...]
    alone: Callable[[int, int], None] | None
    """Runs the only step, where it needs no workspace, on the addresses of an x and an out."""
    partial_bytes: int
    counter_bytes: int


# What torch.cuda.current_stream(index).cuda_stream says, without making a Stream of it; a torch built for the CPU, on
# which the launch tables are tested, has none.
_current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)
_lock = threading.RLock()


@functools.lru_cache(maxsize=4096)
def _ready(
    file: str,
    planner: Planner,
    knobs: Any,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    x_strides: tuple[int, ...],
    out_strides: tuple[int, ...],
    aligned: bool,
    index: int,
) -> _Ready:
    with attached(index):
        problem = problem_of(dtype, shape, x_strides, out_strides, aligned)
        return _made_ready(file, planner, knobs, problem, index)


def _made_ready(file: str, planner: Planner, knobs: Any, problem: Problem, index: int) -> _Ready:
    device = device_of(index)
    plan = planner(problem, device, knobs)
    p = plan.problem
    geometry = _Geometry(
        0, 0, p.rows, p.n, p.inner, p.x_outer, p.x_n, p.x_inner, p.out_outer, p.out_n, p.out_inner, 1 / p.inner
    )
    steps = []
    alone = None
    for step in plan.steps:
        function = _function(file, step, index)
        if step.resident:
            step = replace(step, blocks=min(step.blocks, _blocks_at_once(function, step, device)))
        config = _config(step, device)
        extra = tuple(a if isinstance(a, str) else a[0](a[1]) for a in step.arguments)
        steps.append((_runner(function, config), extra))
        if len(plan.steps) == 1 and not any(isinstance(a, str) for a in extra):
            alone = _mover(function, config, bytes(geometry), extra, index)
    return _Ready(bytes(geometry), tuple(steps), alone, plan.partial_bytes, plan.counter_bytes)


def _noted(step: Step) -> tables.Step:
    return tables.Step(
        step.kernel,
        (step.blocks, step.grid_y),
        step.threads,
        step.shared_bytes,
        step.cluster,
        step.cooperative,
        tuple(a if isinstance(a, str) else a[1] for a in step.arguments),
    )


def problem_of(
    dtype: torch.dtype, shape: tuple[int, ...], x_strides: tuple[int, ...], out_strides: tuple[int, ...], aligned: bool
) -> Problem:
    """The problem of a canonical x and out: three axes each, or two for the output of a minimum."""
    outer, n, inner = shape
    out_outer, out_n, out_inner = out_strides if len(out_strides) == 3 else (out_strides[0], 0, out_strides[1])
    x_outer, x_n, x_inner = x_strides
    if inner > 1 and outer == 1:  # one axis of rows is always the outer one
        outer, inner, x_outer, x_inner, out_outer, out_inner = inner, 1, x_inner, x_outer, out_inner, out_outer
    return Problem(dtype_name(dtype), outer, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, aligned)


@functools.cache
def device_of(index: int) -> Device:
    """The GPU of that index."""
    runtime = cupy.cuda.runtime

    def attribute(name: str) -> int:
        return int(runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), index))

    capability = int(cupy.cuda.Device(index).compute_capability)  # such as "90"
    return Device(attribute("MultiProcessorCount"), capability, attribute("MaxSharedMemoryPerBlockOptin"))


@functools.cache
def source(file: str) -> str:
    """The CUDA C++ of ``file``.cu with its header in place, so that CuPy's cache on disk keys on both."""
    folder = Path(__file__).parent
    header = (folder / "row.cuh").read_text(encoding="utf-8")
    return (folder / f"{file}.cu").read_text(encoding="utf-8").replace('#include "row.cuh"', header)


def _function(file: str, step: Step, device: int) -> int:
    """Handle of a compiled kernel, ready for the shared memory and cluster that the step asks for."""
    function = _compile(file, step.kernel, device)
    with _lock:
        if step.shared_bytes > driver.funcGetAttribute(_MAX_DYNAMIC_SHARED_BYTES, function):
            driver.funcSetAttribute(function, _MAX_DYNAMIC_SHARED_BYTES, step.shared_bytes)
        if step.cluster > 8:  # the largest that every part of compute capability 9.0 promises
            driver.funcSetAttribute(function, _NON_PORTABLE_CLUSTER, 1)
    return function


# Values of CUfunction_attribute.
_MAX_DYNAMIC_SHARED_BYTES = 8
_NON_PORTABLE_CLUSTER = 14


def _compile(file: str, kernel: str, device: int) -> int:
    with _lock:  # once per kernel and device, also when several threads come first
        return _compiled(file, kernel, device)


@functools.cache
def _compiled(file: str, kernel: str, device: int) -> int:
    with cupy.cuda.Device(device):
        module = cupy.RawModule(code=source(file), options=("-std=c++17",), name_expressions=(_known(kernel),))
        function = module.get_function(kernel).kernel
    _loaded.append(function)  # a module is unloaded with its last function
    return int(function.ptr)


_loaded: list[object] = []

_PARAMETER = rf"(?:\d+|true|false|{'|'.join(map(re.escape, set(C_TYPES.values())))})"
_NAME = re.compile(rf"[a-z_]+(?:<{_PARAMETER}(?:, {_PARAMETER})*>)?")


def _known(kernel: str) -> str:
    """The name itself, which the compiler reads as a program: a template's, of numbers and types that are known."""
    if not _NAME.fullmatch(kernel):
        raise ValueError(f"{kernel!r} is no kernel's name: a template's, of numbers and {', '.join(C_TYPES.values())}")
    return kernel


def _blocks_at_once(function: int, step: Step, device: Device) -> int:
    """Blocks that the device runs at once."""
    per_sm = driver.occupancyMaxActiveBlocksPerMultiprocessor(function, step.threads, step.shared_bytes)
    return device.sms * max(1, int(per_sm))


# --- cuLaunchKernelEx, which CuPy has no word for: it takes clusters, co-operative grids and dependent launches ------


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: what is set, and a union of 64 bytes that all attributes here fill with int32."""

    _fields_ = (("id", ctypes.c_int32), ("pad", ctypes.c_int32), ("value", ctypes.c_int32 * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``, and the attributes that it points to."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    )
    held: object


# Values of CUlaunchAttributeID.
_COOPERATIVE = 2
_CLUSTER_DIMENSION = 4
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


def _config(step: Step, device: Device) -> _Config:
    attributes: list[tuple[int, ...]] = []
    if step.cooperative:
        attributes.append((_COOPERATIVE, 1))
    if step.cluster > 1:
        attributes.append((_CLUSTER_DIMENSION, step.cluster, 1, 1))
    if device.capability >= 90:
        # The launch may be prepared while the kernel before it ends; every kernel here begins by waiting for that
        # (begin() in row.cuh), so that only the time of the launch overlaps.
        attributes.append((_PROGRAMMATIC_STREAM_SERIALIZATION, 1))
    held = (_Attribute * len(attributes))(*(_Attribute(id, 0, tuple(value)) for id, *value in attributes))
    # Past the limit of grid.x the grid has two axes, x a multiple of any cluster; kernels skip what is too much.
    x, y = (step.blocks, step.grid_y) if step.blocks <= MAX_GRID_X else (2**30, -(-step.blocks // 2**30))
    config = _Config((x, y, 1), (step.threads, 1, 1), step.shared_bytes, None, ctypes.addressof(held), len(attributes))
    config.held = held
    return config


@functools.cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _mover(
    function: int, config: _Config, geometry: bytes, extra: tuple[Any, ...], device: int
) -> Callable[[int, int], None]:
    """A launch on any x and out of one layout. What the driver reads is made once and used by one thread at a time."""
    launch, handle, blank = _libcuda().cuLaunchKernelEx, ctypes.c_void_p(function), bytes(config)
    free: list[tuple[_Geometry, _Config, tuple[object, ...]]] = []

    def at(x: int, out: int, held: object = config.held) -> None:
        try:
            here, settings, arguments = free.pop()
        except IndexError:
            here, settings = _Geometry.from_buffer_copy(geometry), _Config.from_buffer_copy(blank)
            pointers = (ctypes.c_void_p * (1 + len(extra)))(ctypes.addressof(here), *map(ctypes.addressof, extra))
            arguments = (ctypes.byref(settings), handle, pointers, None)
        here.x, here.out, settings.stream = x, out, _current_stream(device)
        status = launch(*arguments)
        if status:
            _attach_thread(status)
            driver.check_status(launch(*arguments))
        free.append((here, settings, arguments))

    return at


def _attach_thread(status: int) -> None:
    """Make torch's context current in a thread that has none yet; a thread that has one failed for another reason."""
    if driver.ctxGetCurrent():
        driver.check_status(status)
    cupy.cuda.runtime.setDevice(torch.cuda.current_device())


def _runner(function: int, config: _Config) -> Run:
    launch = _libcuda().cuLaunchKernelEx
    blank, handle = bytes(config), ctypes.c_void_p(function)

    def run(stream: int, parameters: object, held: object = config.held) -> None:
        here = _Config.from_buffer_copy(blank)  # another thread may be launching on its own stream
        here.stream = stream
        status = launch(ctypes.byref(here), handle, parameters, None)
        if status:
            _attach_thread(status)
            driver.check_status(launch(ctypes.byref(here), handle, parameters, None))

    return run
