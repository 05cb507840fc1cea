"""From a kernel written in Numba to a launch on torch's stream: compiled once, its arguments packed at bind.

Numba's own way, ``kernel[grid, block, stream](tensors)``, asks each tensor for its array interface and unpacks it into
seven arguments, at every call. A kernel here takes raw pointers and 64-bit integers instead, so that ``cuda.compile``
gives PTX with a plain parameter list, and its launch is one
``cuLaunchKernelEx``. Compiling needs no GPU.
bench/test_submit.py measures both ways.

In Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) the same kernels run as Python over flat NumPy views of CPU tensors.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from cuda.bindings import driver
from cuda.core import Program, ProgramOptions
from numba import cuda
from numba.cuda import config, types

from kernelzoo.kernels.numba.disk import store, stored
from kernelzoo.ops import attached
from kernelzoo.registry import Launch, Movable
from kernelzoo.tables import Step, noting

SIMULATED: bool = config.ENABLE_CUDASIM


@dataclass(frozen=True, eq=False)  # equal to itself alone: the caches of kernels make one of each
class Source:
    """A kernel before it is compiled. Its arguments are pointers, and integers after them."""

    function: Callable[..., None]
    arguments: tuple[Any, ...]
    """Numba's types: pointers and int64."""
    threads: int
    """Threads per block, at most."""
    constants: tuple[object, ...]
    """What the function around it was given: with its qualified name, this says which kernel it is."""
    blocks: int = 1
    """Blocks that an SM must be able to run at once, which bounds the registers of a thread."""

    @property
    def pointers(self) -> int:
        """How many of its arguments are pointers."""
        return sum(isinstance(argument, types.CPointer) for argument in self.arguments)


@dataclass(frozen=True)
class Kernel:
    """A kernel on one device."""

    function: Any
    """The driver's handle, or the simulated kernel."""
    threads: int
    device: int
    pointers: int
    """How many of its arguments are tensors."""

    def resident(self, threads: int) -> int:
        """Blocks of so many threads that the device can hold at once: its SMs times the kernel's occupancy."""
        if SIMULATED:
            return 2
        blocks = _check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self.function, threads, 0))
        return max(1, int(blocks)) * int(_properties(self.device).multi_processor_count)

    def _allow(self, shared: int, cluster: int) -> None:
        """Ask for what a kernel isn't granted unasked."""
        if shared:  # unasked it is 48 kB, less what the kernel declares itself
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            if shared > _check(driver.cuFuncGetAttribute(attribute, self.function)):
                _check(driver.cuFuncSetAttribute(self.function, attribute, shared))
        if cluster > 8:  # the largest that every device with clusters grants
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            _check(driver.cuFuncSetAttribute(self.function, attribute, 1))

    def call(
        self,
        grid: int,
        *integers: int,
        threads: int = 0,
        shared: int = 0,
        cluster: int = 1,
        cooperative: bool = False,
    ) -> Callable[..., Launch]:
        """A call over ``grid`` blocks that lacks only its tensors: give it those, and it returns a launch.

        ``threads`` per block, if not as many as it was compiled for; ``shared`` bytes of dynamic shared memory; blocks
        in clusters of ``cluster``; ``cooperative`` if they wait for each other. Tensors are passed by their address,
        and kept alive by the launch.
        """
        threads = threads or self.threads
        if SIMULATED:
            return partial(self._simulate, grid, threads, shared, integers)
        self._allow(shared, cluster)
        function, device = int(self.function), self.device
        dependent = torch.cuda.get_device_capability(device) >= _DEPENDENT_LAUNCHES
        shape = _Shape(grid, threads, shared, cluster, cooperative, dependent)
        current_stream = torch._C._cuda_getCurrentRawStream
        submit = _submit()
        frames: list[_Frame] = []  # those not in use: taking and giving back are each one step to other threads

        def frame_for(pointers: int) -> _Frame:
            try:
                return frames.pop()
            except IndexError:  # and not asked for beforehand: another thread may take the last one in between
                return _Frame(shape, pointers, integers)

        def submit_with(addresses: tuple[int, ...]) -> None:
            frame = frame_for(len(addresses))
            values = frame.values
            for i, address in enumerate(addresses):
                values[i] = address
            frame.configuration.stream = current_stream(device)
            status = submit(frame.where, function, frame.parameters, None)
            if status:
                with attached(device):
                    _check((driver.CUresult(submit(frame.where, function, frame.parameters, None)),))
            frames.append(frame)

        def at(x: int, out: int) -> None:
            try:
                frame = frames.pop()
            except IndexError:
                frame = _Frame(shape, 2, integers)
            values = frame.values
            values[0] = x
            values[1] = out
            frame.configuration.stream = current_stream(device)
            if submit(frame.where, function, frame.parameters, None):
                submit_with((x, out))
            frames.append(frame)

        def bind(*tensors: torch.Tensor) -> Launch:
            if self.pointers == 2:
                return Movable(at, *tensors)
            addresses = tuple(tensor.data_ptr() for tensor in tensors)

            def launch(keep: object = tensors) -> None:
                submit_with(addresses)

            return launch

        return bind

    def _simulate(
        self, grid: int, threads: int, shared: int, integers: tuple[int, ...], *tensors: torch.Tensor
    ) -> Launch:
        flat = [_flat(tensor) for tensor in tensors]

        def launch() -> None:
            self.function[grid, threads, 0, shared](*flat, *integers)

        return launch


@dataclass(frozen=True)
class _Shape:
    """What a launch says beside its arguments and its stream."""

    grid: int
    threads: int
    shared: int
    cluster: int
    cooperative: bool
    dependent: bool
    """Prepared while what ran before on its stream ends: its kernel waits for that."""


class _Attribute(ctypes.Structure):
    """The driver's ``CUlaunchAttribute``."""

    _fields_ = (("id", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Configuration(ctypes.Structure):
    """The driver's ``CUlaunchConfig``."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid", "grid_y", "grid_z", "block", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


_CLUSTER_DIMENSION, _COOPERATIVE, _PROGRAMMATIC_STREAM_SERIALIZATION = 4, 2, 6  # of enum CUlaunchAttributeID

_DEPENDENT_LAUNCHES = (9, 0)
"""The compute capability from which a launch may be prepared while the one before it ends."""


class _Frame:
    """All that the driver reads of one launch while it is submitted; another thread that submits takes another."""

    __slots__ = ("_attributes", "_pointers", "configuration", "parameters", "values", "where")

    def __init__(self, shape: _Shape, pointers: int, integers: tuple[int, ...]) -> None:
        count = pointers + len(integers)
        self.values = (ctypes.c_uint64 * count)(*[0] * pointers, *integers)
        start = ctypes.addressof(self.values)
        self._pointers = (ctypes.c_uint64 * count)(*range(start, start + 8 * count, 8))
        self.parameters = ctypes.addressof(self._pointers)
        attributes = []
        if shape.cluster > 1:
            attributes.append(_Attribute(_CLUSTER_DIMENSION, 0, (shape.cluster, 1, 1)))
        if shape.cooperative:
            attributes.append(_Attribute(_COOPERATIVE, 0, (1,)))
        if shape.dependent:
            attributes.append(_Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1,)))
        self._attributes = (_Attribute * max(1, len(attributes)))(*attributes)
        self.configuration = _Configuration(
            *(shape.grid, 1, 1, shape.threads, 1, 1, shape.shared),
            None,
            ctypes.addressof(self._attributes),
            len(attributes),
        )
        self.where = ctypes.addressof(self.configuration)


@cache
def _submit() -> Callable[..., int]:
    """The driver's ``cuLaunchKernelEx``, called by its address: its binding in Python takes twice the time."""
    address, _ = _check_all(driver.cuGetProcAddress(b"cuLaunchKernelEx", 11080, 0))
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return kind(int(address))


class _Noted(Kernel):
    """A kernel that nobody has compiled: its calls note what they would launch, see :mod:`kernelzoo.tables`."""

    def resident(self, threads: int) -> int:
        return 1

    def call(
        self,
        grid: int,
        *integers: int,
        threads: int = 0,
        shared: int = 0,
        cluster: int = 1,
        cooperative: bool = False,
    ) -> Callable[..., Launch]:
        steps = noting.get()
        if steps is not None:
            kernel = f"{self.function.function.__qualname__}{self.function.constants}"
            steps.append(Step(kernel, (grid,), threads or self.threads, shared, cluster, cooperative, integers))
        return lambda *tensors: lambda: None


def prepare(source: Source, device: torch.device) -> Kernel:
    """The kernel on that device, compiled on first use and kept. Safe from several threads."""
    if noting.get() is not None:
        return _Noted(source, source.threads, device.index or 0, source.pointers)
    index = device.index or 0
    kernel = _kernels.get((source, index))
    if kernel is None:
        with _lock:  # Numba's compiler takes one thread at a time
            kernel = _kernels.get((source, index))
            if kernel is None:
                kernel = _kernels[source, index] = _simulated(source) if SIMULATED else _load(source, index)
    return kernel


_lock = threading.Lock()
_kernels: dict[tuple[Source, int], Kernel] = {}


def _simulated(source: Source) -> Kernel:
    return Kernel(cuda.jit(source.function), source.threads, 0, source.pointers)


def to_ptx(source: Source, capability: tuple[int, int]) -> str:
    """PTX of the kernel for a compute capability. Needs no GPU.

    From 9.0 on it begins by waiting for all that came before on its stream: a launch may be prepared while the one
    before it ends (see _Frame), so that only the time of the launch overlaps. No kernel lets the next one begin early:
    that would help two launches of ours in a row, as a benchmark makes them, and no one who calls us between kernels
    of others.
    """
    ptx, _ = cuda.compile(
        source.function,
        types.void(*source.arguments),
        device=False,
        abi="numba",
        cc=capability,
        output="ptx",
        launch_bounds=(source.threads, source.blocks),
    )
    if capability < _DEPENDENT_LAUNCHES:
        return str(ptx)
    waiting, entries = re.subn(r"(\.entry [^{]*\{)", r"\1\n\tgriddepcontrol.wait;", str(ptx))
    assert entries == 1, "Numba's PTX of a kernel has one entry"
    return waiting


def to_cubin(ptx: str, capability: tuple[int, int]) -> bytes:
    """Machine code of that PTX, by the toolkit's assembler and not by the driver's. Needs no GPU."""
    major, minor = capability
    return bytes(Program(ptx, "ptx", ProgramOptions(arch=f"sm_{major}{minor}")).compile("cubin").code)


def _load(source: Source, device: int) -> Kernel:
    capability = torch.cuda.get_device_capability(device)
    name, cubin = compiled(source, capability)
    with attached(device):
        module = _check(driver.cuModuleLoadData(cubin))
        function = _check(driver.cuModuleGetFunction(module, name.encode()))
    return Kernel(function, source.threads, device, source.pointers)


def compiled(source: Source, capability: tuple[int, int]) -> tuple[str, bytes]:
    """The kernel's name and machine code for a compute capability, from the cache on disk if it is there."""
    kept = stored(source, capability)
    if kept is not None:
        return kept
    ptx = to_ptx(source, capability)
    match = re.search(r"\.visible \.entry (\w+)", ptx)
    assert match is not None, "Numba's PTX of a kernel has one entry"
    name, cubin = match.group(1), to_cubin(ptx, capability)
    store(source, capability, name, cubin)
    return name, cubin


@cache
def _properties(device: int) -> Any:
    return torch.cuda.get_device_properties(device)


def multiprocessors(device: torch.device) -> int:
    """SMs of the device; in the simulator, 2."""
    return 2 if SIMULATED else int(_properties(device.index or 0).multi_processor_count)


def l2_bytes(device: torch.device) -> int:
    """Size of the device's L2 cache; in the simulator, so little that a split goes row by row."""
    return 4096 if SIMULATED else int(_properties(device.index or 0).L2_cache_size)


def has_clusters(device: torch.device) -> bool:
    """Whether blocks can reach each other's shared memory: sm_90 and later."""
    return not SIMULATED and bool(_properties(device.index or 0).major >= 9)


def most_blocks(device: torch.device) -> int:
    """Blocks to a cluster: 16, with leave, on Hopper and data-centre Blackwell, 8 on later ones, 1 without clusters."""
    if not has_clusters(device):
        return 1
    return 16 if _properties(device.index or 0).major in (9, 10) else 8


def shared_bytes(device: torch.device) -> int:
    """Dynamic shared memory that a block can have beside 2 kB of its own; none in the simulator, without clusters."""
    if SIMULATED:
        return 0
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    return int(_check(driver.cuDeviceGetAttribute(attribute, device.index or 0))) - 2048


def _check(answer: tuple[Any, ...]) -> Any:
    values = _check_all(answer)
    return values[0] if values else None


def _check_all(answer: tuple[Any, ...]) -> list[Any]:
    status, *values = answer
    if status:
        _, text = driver.cuGetErrorString(status)
        raise RuntimeError(f"CUDA driver: {text.decode() if text else status}")
    return values


def _flat(x: torch.Tensor) -> Any:
    """A NumPy array over x's memory from its first element on, half precision and bool as bits."""
    span = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) + 1
    flat = x.as_strided((span,), (1,))
    if x.dtype in (torch.float16, torch.bfloat16):
        flat = flat.view(torch.uint16)
    return flat.view(torch.uint8).numpy() if x.dtype == torch.bool else flat.numpy()
