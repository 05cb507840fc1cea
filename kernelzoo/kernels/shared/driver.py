"""Calls to NVIDIA's driver that load machine code and launch it by ``cuLaunchKernelEx``. This function supports
clusters, cooperative grids and dependent launches. CuPy and Numba don't offer it, so their kernels are launched
here."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kernelzoo.device import Device, make_gpu_current
from kernelzoo.torch_private import current_stream

MAX_GRID_X = 2**31 - 1


@dataclass(frozen=True)
class LaunchShape:
    """The configuration of a launch, without its parameters and its stream."""

    grid: int
    """Number of blocks. Above the first axis's limit, a second axis is added, and kernels skip surplus blocks."""
    threads: int
    """Threads per block."""
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    cluster: int = 1
    """Blocks per cluster."""
    cooperative: bool = False
    """Whether blocks wait for each other, so that all of them must be resident at once."""
    grid_y: int = 1


@dataclass(frozen=True)
class Parameters:
    """A kernel's parameters as 64-bit words (x and out first), with the index of each parameter's first word."""

    words: tuple[int, ...]
    starts: tuple[int, ...]

    @staticmethod
    def from_words(*words: int) -> Parameters:
        """Parameters of one word each."""
        return Parameters(words, tuple(range(len(words))))


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: an attribute's id, and its value as a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_uint32), ("padding", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    )


_COOPERATIVE, _CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6  # of CUlaunchAttributeID
_MAX_DYNAMIC_SHARED_BYTES, _NON_PORTABLE_CLUSTER = 8, 14  # of CUfunction_attribute
_PORTABLE_CLUSTER = 8
"""The most blocks of a cluster that every device with clusters allows by default."""


@cache
def library() -> Any:
    """Return libcuda, which comes with the driver."""
    return ctypes.CDLL("libcuda.so.1")


def check_status(status: int) -> None:
    """Raise RuntimeError, with the driver's message, for a status that is not success."""
    if status:
        text = ctypes.c_char_p()
        library().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA driver: {text.value.decode() if text.value else status}")


def version() -> int:
    """Return the newest CUDA version that the driver supports: 13000 for 13.0."""
    found = ctypes.c_int()
    check_status(library().cuDriverGetVersion(ctypes.byref(found)))
    return found.value


_lock = threading.Lock()


def load_function(binary: bytes, symbol: str, index: int) -> int:
    """Load machine code on the GPU of that index, and return the handle of kernel ``symbol``. The code stays loaded."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with make_gpu_current(index):
        check_status(library().cuModuleLoadData(ctypes.byref(module), binary))
        check_status(library().cuModuleGetFunction(ctypes.byref(function), module, symbol.encode()))
    assert function.value is not None
    return function.value


def raise_launch_limits(function: int, shape: LaunchShape) -> None:
    """Raise a kernel's limits of shared memory and cluster size to those of ``shape``. Its GPU must be current."""
    handle = ctypes.c_void_p(function)
    with _lock:
        granted = ctypes.c_int()
        check_status(library().cuFuncGetAttribute(ctypes.byref(granted), _MAX_DYNAMIC_SHARED_BYTES, handle))
        if shape.shared_bytes > granted.value:
            check_status(library().cuFuncSetAttribute(handle, _MAX_DYNAMIC_SHARED_BYTES, shape.shared_bytes))
        if shape.cluster > _PORTABLE_CLUSTER:
            check_status(library().cuFuncSetAttribute(handle, _NON_PORTABLE_CLUSTER, 1))


def max_resident_blocks(function: int, threads: int, shared_bytes: int, device: Device) -> int:
    """Return how many blocks of a loaded kernel can be resident on the device: at least one per multiprocessor."""
    blocks = ctypes.c_int()
    occupancy = library().cuOccupancyMaxActiveBlocksPerMultiprocessor
    check_status(occupancy(ctypes.byref(blocks), ctypes.c_void_p(function), threads, ctypes.c_size_t(shared_bytes)))
    return device.multiprocessors * max(1, blocks.value)


def _launch_attributes(shape: LaunchShape, device: Device) -> Any:
    found: list[tuple[int, tuple[int, ...]]] = []
    if shape.cooperative:
        found.append((_COOPERATIVE, (1,)))
    if shape.cluster > 1:
        found.append((_CLUSTER_DIMENSION, (shape.cluster, 1, 1)))
    if device.allows_dependent_launches:
        # The launch may be prepared while the previous kernel ends. Every kernel first waits for that end, so that only
        # the launch overhead overlaps.
        found.append((_PROGRAMMATIC_STREAM_SERIALIZATION, (1,)))
    return (_Attribute * len(found))(*(_Attribute(id, 0, value) for id, value in found))


def grid_axes(shape: LaunchShape) -> tuple[int, int]:
    """Return the number of blocks along the grid's two axes. A grid beyond the first axis's limit gets 2**30 blocks
    along that axis, a multiple of any cluster size."""
    return (shape.grid, shape.grid_y) if shape.grid <= MAX_GRID_X else (2**30, -(-shape.grid // 2**30))


@lru_cache(maxsize=4096)
def launch_config(shape: LaunchShape, device: Device) -> tuple[Any, Any]:
    """Return ``CUlaunchConfig`` for a shape, without a stream, and its launch attributes. The configuration points
    to the attributes, so the caller must keep both alive, and must not change either."""
    attributes = _launch_attributes(shape, device)
    x, y = grid_axes(shape)
    where = ctypes.addressof(attributes) if len(attributes) else None
    return _Config((x, y, 1), (shape.threads, 1, 1), shape.shared_bytes, None, where, len(attributes)), attributes


_Frame = tuple[Any, Any, tuple[object, ...]]
"""The memory that the driver reads at one launch: the parameters' words, the configuration, the call's arguments."""


def make_launcher(function: int, shape: LaunchShape, parameters: Parameters, device: Device) -> Callable[..., None]:
    """Return a function of the addresses of a kernel's tensors. It launches the kernel on torch's current stream.

    Addresses replace the first parameter words. The driver's memory for a launch is reused, but not shared by threads.
    """
    launch, index = library().cuLaunchKernelEx, device.index
    handle: object = ctypes.c_void_p.from_param(function)  # converted here once, not in each call
    config, attributes = launch_config(shape, device)
    blank, words, starts = bytes(config), parameters.words, parameters.starts

    def new_frame(kept_alive: object = attributes) -> _Frame:
        values, settings = (ctypes.c_uint64 * len(words))(*words), _Config.from_buffer_copy(blank)
        first = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * len(starts))(*(first + 8 * start for start in starts))
        return values, settings, (ctypes.byref(settings), handle, ctypes.byref(pointers), None)

    free: list[_Frame] = []  # pop and append are atomic among threads

    def launch_at(*addresses: int) -> None:
        try:
            frame = free.pop()
        except IndexError:
            frame = new_frame()
        values, settings, arguments = frame
        values[: len(addresses)] = addresses
        settings.stream = current_stream(index)
        if launch(*arguments):
            with make_gpu_current(index):  # a new thread may lack a context: retry with one, and raise other errors
                check_status(launch(*arguments))
        free.append(frame)

    return launch_at


def parameter_words(parts: Sequence[bytes]) -> Parameters:
    """Return Parameters, given each parameter's bytes as in C. The first one begins with the addresses of x and out."""
    words: list[int] = []
    starts = []
    for part in parts:
        starts.append(len(words))
        padded = part + bytes(-len(part) % 8)
        words += [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
    return Parameters(tuple(words), tuple(starts))
