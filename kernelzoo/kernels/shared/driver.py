"""NVIDIA's driver as far as a launch needs it: loading machine code, and ``cuLaunchKernelEx``, which takes clusters,
co-operative grids and dependent launches. CuPy and Numba have no word for it; both languages launch through here.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kernelzoo.device import Device, attached
from kernelzoo.torch_private import current_stream

MAX_GRID_X = 2**31 - 1


@dataclass(frozen=True)
class Shape:
    """What a launch says beside its parameters and its stream."""

    grid: int
    """Blocks; past the limit of the grid's first axis they get a second one, and kernels skip what is too much."""
    threads: int
    """In a block."""
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    cluster: int = 1
    """Blocks to a cluster."""
    cooperative: bool = False
    """The blocks wait for each other, so all of them must run at once."""
    grid_y: int = 1


@dataclass(frozen=True)
class Parameters:
    """A kernel's parameters as 64-bit words, of which the first two are x and out, and each parameter's first word."""

    words: tuple[int, ...]
    starts: tuple[int, ...]

    @staticmethod
    def of_words(*words: int) -> Parameters:
        """Parameters of one word each."""
        return Parameters(words, tuple(range(len(words))))


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: what is set, and a union of 64 bytes."""

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
"""Blocks to a cluster that every device with clusters grants unasked."""


@cache
def library() -> Any:
    """libcuda, which comes with the driver."""
    return ctypes.CDLL("libcuda.so.1")


def check(status: int) -> None:
    """Raise RuntimeError, with the driver's words, for a status that is not success."""
    if status:
        text = ctypes.c_char_p()
        library().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA driver: {text.value.decode() if text.value else status}")


def version() -> int:
    """The newest CUDA that the driver is for: 13000 for 13.0."""
    found = ctypes.c_int()
    check(library().cuDriverGetVersion(ctypes.byref(found)))
    return found.value


_lock = threading.Lock()


def load(binary: bytes, symbol: str, index: int) -> int:
    """Load machine code on the GPU of that index; the handle of the kernel of that symbol. It is never unloaded."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with attached(index):
        check(library().cuModuleLoadData(ctypes.byref(module), binary))
        check(library().cuModuleGetFunction(ctypes.byref(function), module, symbol.encode()))
    assert function.value is not None
    return function.value


def allow(function: int, shape: Shape) -> None:
    """Ask for what the launch's shape needs and a kernel isn't granted unasked. The GPU must be current."""
    handle = ctypes.c_void_p(function)
    with _lock:
        granted = ctypes.c_int()
        check(library().cuFuncGetAttribute(ctypes.byref(granted), _MAX_DYNAMIC_SHARED_BYTES, handle))
        if shape.shared_bytes > granted.value:
            check(library().cuFuncSetAttribute(handle, _MAX_DYNAMIC_SHARED_BYTES, shape.shared_bytes))
        if shape.cluster > _PORTABLE_CLUSTER:
            check(library().cuFuncSetAttribute(handle, _NON_PORTABLE_CLUSTER, 1))


def blocks_at_once(function: int, threads: int, shared_bytes: int, device: Device) -> int:
    """Blocks of a loaded kernel that the device holds at once, never less than one to a multiprocessor."""
    blocks = ctypes.c_int()
    occupancy = library().cuOccupancyMaxActiveBlocksPerMultiprocessor
    check(occupancy(ctypes.byref(blocks), ctypes.c_void_p(function), threads, ctypes.c_size_t(shared_bytes)))
    return device.multiprocessors * max(1, blocks.value)


def _attributes(shape: Shape, device: Device) -> Any:
    found: list[tuple[int, tuple[int, ...]]] = []
    if shape.cooperative:
        found.append((_COOPERATIVE, (1,)))
    if shape.cluster > 1:
        found.append((_CLUSTER_DIMENSION, (shape.cluster, 1, 1)))
    if device.dependent_launches:
        # The launch may be prepared while the kernel before it ends; every kernel begins by waiting for that, so that
        # only the time of the launch overlaps.
        found.append((_PROGRAMMATIC_STREAM_SERIALIZATION, (1,)))
    return (_Attribute * len(found))(*(_Attribute(id, 0, value) for id, value in found))


def grid_axes(shape: Shape) -> tuple[int, int]:
    """Blocks along the grid's two axes: past the limit of the first it has a second, the first a multiple of any
    cluster."""
    return (shape.grid, shape.grid_y) if shape.grid <= MAX_GRID_X else (2**30, -(-shape.grid // 2**30))


@lru_cache(maxsize=4096)
def configuration(shape: Shape, device: Device) -> tuple[Any, Any]:
    """``CUlaunchConfig`` for a shape, its stream left out, and the attributes that it points to, to be kept alive.
    Neither is to be written to."""
    attributes = _attributes(shape, device)
    x, y = grid_axes(shape)
    where = ctypes.addressof(attributes) if len(attributes) else None
    return _Config((x, y, 1), (shape.threads, 1, 1), shape.shared_bytes, None, where, len(attributes)), attributes


_Frame = tuple[Any, Any, tuple[object, ...]]
"""All that the driver reads of one launch: the parameters' words, the configuration, and what is passed to it."""


def movable(function: int, shape: Shape, parameters: Parameters, device: Device) -> Callable[..., None]:
    """A launch of a loaded kernel on the addresses of its tensors, the first words, on torch's current stream.

    What the driver reads is made once and used by one thread at a time: another thread that launches takes another.
    """
    launch, index = library().cuLaunchKernelEx, device.index
    handle: object = ctypes.c_void_p.from_param(function)  # as a call converts it: so this one has nothing to convert
    config, attributes = configuration(shape, device)
    blank, words, starts = bytes(config), parameters.words, parameters.starts

    def made(held: object = attributes) -> _Frame:
        values, settings = (ctypes.c_uint64 * len(words))(*words), _Config.from_buffer_copy(blank)
        first = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * len(starts))(*(first + 8 * start for start in starts))
        return values, settings, (ctypes.byref(settings), handle, ctypes.byref(pointers), None)

    free: list[_Frame] = []  # taking and giving back are each one step to other threads

    def at(*addresses: int) -> None:
        try:
            frame = free.pop()
        except IndexError:
            frame = made()
        values, settings, arguments = frame
        values[: len(addresses)] = addresses
        settings.stream = current_stream(index)
        if launch(*arguments):
            with attached(index):  # a thread that has not used the GPU yet has no context; else it fails again
                check(launch(*arguments))
        free.append(frame)

    return at


def parameter_words(parts: Sequence[bytes]) -> Parameters:
    """Parameters of any sizes, each as its bytes in C, the first beginning with the addresses of x and out."""
    words: list[int] = []
    starts = []
    for part in parts:
        starts.append(len(words))
        padded = part + bytes(-len(part) % 8)
        words += [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
    return Parameters(tuple(words), tuple(starts))
