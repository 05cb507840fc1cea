"""From a kernel written in Numba to a launch on torch's stream: compiled once, its arguments packed at bind.

Numba's own way, ``kernel[grid, block, stream](tensors)``, asks each tensor for its array interface and unpacks it into
seven arguments, at every call. A kernel here takes raw pointers and 64-bit integers instead, so that ``cuda.compile``
gives PTX with a plain parameter list, and its launch is one ``cuLaunchKernel``. Compiling needs no GPU.
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

from kernelzoo.registry import Launch, Movable

SIMULATED: bool = config.ENABLE_CUDASIM


@dataclass(frozen=True, eq=False)  # equal to itself alone: the caches of kernels make one of each
class Source:
    """A kernel before it is compiled. Its arguments are pointers, and integers after them."""

    function: Callable[..., None]
    arguments: tuple[Any, ...]
    """Numba's types: pointers and int64."""
    threads: int
    """Threads per block."""
    cluster: int = 1
    """Blocks per cluster."""

    @property
    def pointers(self) -> int:
        """How many of its arguments are pointers."""
        return sum(isinstance(argument, types.CPointer) for argument in self.arguments)


@dataclass(frozen=True)
class Kernel:
    """A kernel on one device."""

    function: Any
    threads: int
    device: int
    resident: int
    """Blocks that the device can hold at once: its SMs times the kernel's occupancy."""
    cluster: int
    pointers: int
    """How many of its arguments are tensors."""

    def call(self, grid: int, *integers: int) -> Callable[..., Launch]:
        """A call over ``grid`` blocks that lacks only its tensors: give it those, and it returns a launch.

        Tensors are passed by their address, and kept alive by the launch.
        """
        if SIMULATED:
            return partial(self._simulate, grid, integers)
        function, threads, device = self.function, self.threads, self.device
        count = len(integers) + self.pointers
        array = ctypes.c_uint64 * count
        steps = range(0, 8 * count, 8)
        current_stream = torch._C._cuda_getCurrentRawStream
        submit = driver.cuLaunchKernel if self.cluster == 1 else self._clusters(grid)

        def submit_with(values: ctypes.Array[ctypes.c_uint64]) -> None:
            start = ctypes.addressof(values)
            addresses = array(*[start + step for step in steps])
            packed = ctypes.addressof(addresses)
            (status,) = submit(function, grid, 1, 1, threads, 1, 1, 0, current_stream(device), packed, 0)
            if status:
                torch.cuda.set_device(device)  # a thread that has not used the device yet has no context
                _check(submit(function, grid, 1, 1, threads, 1, 1, 0, current_stream(device), packed, 0))

        def at(x: int, out: int) -> None:
            submit_with(array(x, out, *integers))

        def bind(*tensors: torch.Tensor) -> Launch:
            if self.pointers == 2:
                return Movable(at, *tensors)
            values = array(*[tensor.data_ptr() for tensor in tensors], *integers)

            def launch(keep: object = tensors) -> None:
                submit_with(values)

            return launch

        return bind

    def _simulate(self, grid: int, integers: tuple[int, ...], *tensors: torch.Tensor) -> Launch:
        flat = [_flat(tensor) for tensor in tensors]

        def launch() -> None:
            self.function[grid, self.threads](*flat, *integers)

        return launch

    def _clusters(self, grid: int) -> Callable[..., Any]:
        """``cuLaunchKernel`` for blocks in clusters, which only the extended launch can say."""
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = self.cluster, 1, 1
        configurations = threading.local()  # it carries the stream, and threads may share a launch

        def submit(function: Any, *rest: int) -> Any:
            *_, stream, packed, extra = rest
            configuration = getattr(configurations, "own", None)
            if configuration is None:
                configuration = configurations.own = driver.CUlaunchConfig()
                configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ = grid, 1, 1
                configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ = self.threads, 1, 1
                configuration.attrs, configuration.numAttrs = [attribute], 1
            configuration.hStream = stream
            return driver.cuLaunchKernelEx(configuration, function, packed, extra)

        return submit


def prepare(source: Source, device: torch.device) -> Kernel:
    """The kernel on that device, compiled on first use and kept. Safe from several threads."""
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
    return Kernel(cuda.jit(source.function), source.threads, 0, 2, source.cluster, source.pointers)


def to_ptx(source: Source, capability: tuple[int, int]) -> str:
    """PTX of the kernel for a compute capability. Needs no GPU."""
    ptx, _ = cuda.compile(
        source.function,
        types.void(*source.arguments),
        device=False,
        abi="numba",
        cc=capability,
        output="ptx",
        launch_bounds=source.threads,
    )
    return str(ptx)


def to_cubin(ptx: str, capability: tuple[int, int]) -> bytes:
    """Machine code of that PTX, by the toolkit's assembler and not by the driver's. Needs no GPU."""
    major, minor = capability
    return bytes(Program(ptx, "ptx", ProgramOptions(arch=f"sm_{major}{minor}")).compile("cubin").code)


def _load(source: Source, device: int) -> Kernel:
    torch.cuda.set_device(device)
    capability = torch.cuda.get_device_capability(device)
    ptx = to_ptx(source, capability)
    match = re.search(r"\.visible \.entry (\w+)", ptx)
    assert match is not None, "Numba's PTX of a kernel has one entry"
    module = _check(driver.cuModuleLoadData(to_cubin(ptx, capability)))
    function = _check(driver.cuModuleGetFunction(module, match.group(1).encode()))
    blocks = _check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, source.threads, 0))
    return Kernel(
        function,
        source.threads,
        device,
        blocks * _properties(device).multi_processor_count,
        source.cluster,
        source.pointers,
    )


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


def _check(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if status:
        _, text = driver.cuGetErrorString(status)
        raise RuntimeError(f"CUDA driver: {text.decode() if text else status}")
    return values[0] if values else None


def _flat(x: torch.Tensor) -> Any:
    """A NumPy array over x's memory from its first element on, half precision and bool as bits."""
    span = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) + 1
    flat = x.as_strided((span,), (1,))
    if x.dtype in (torch.float16, torch.bfloat16):
        flat = flat.view(torch.uint16)
    return flat.view(torch.uint8).numpy() if x.dtype == torch.bool else flat.numpy()
