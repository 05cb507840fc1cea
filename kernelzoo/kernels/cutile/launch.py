"""Launches of kernels written in cuTile, on torch's stream. The bind compiles a kernel and packs its arguments.

cuTile's own ``cuda.tile.launch(stream, grid, kernel, arguments)`` inspects each tensor at every call, and compiles at
the first. Here a launch is one ``cuLaunchKernelEx``, see :mod:`kernelzoo.kernels.shared.driver`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import kernelzoo.kernels.cutile as package
from kernelzoo import device as devices
from kernelzoo.device import Device, is_batch_invariant
from kernelzoo.errors import GridTooLargeError
from kernelzoo.kernels.cutile import compiler
from kernelzoo.kernels.cutile.compiler import ArrayProperties, Program
from kernelzoo.kernels.shared import programs
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters
from kernelzoo.launch import Launch, LaunchStep, recording
from kernelzoo.layout import VECTOR_BYTES

WARP = 32
"""The number of threads per warp."""

MAX_PROGRAMS = 2**24 - 1
"""cuTile's limit of programs per launch, because tileiras counts them in float32. Choosers halve larger problems."""

FAR = 2**30
"""Arrays of at least this extent, in elements, have 64-bit strides. It leaves room for a tile past the end."""


def device_of(x: torch.Tensor) -> Device:
    found: Device = devices.of(x) if package.stand_in is None else package.stand_in.device
    return found


@dataclass(frozen=True)
class View:
    """A strided view of a tensor: a kernel's array. If any axis is contiguous, it is the last."""

    tensor: torch.Tensor
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Strides in elements. An axis of size 1 may have any stride."""

    @property
    def extent_in_elements(self) -> int:
        """The distance from the first element to the last, in elements."""
        return sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    @property
    def needs_int64(self) -> bool:
        """Whether sizes and strides need 64 bits. Sizes are checked too: expanded axes (stride 0) add no extent."""
        return max(self.extent_in_elements, *self.sizes) >= FAR

    def array_properties(self, index_type: str) -> ArrayProperties:
        """Return the properties for which a kernel is specialized. index_type: the type of sizes and strides."""
        itemsize = self.tensor.element_size()
        # In a batch-invariant call, a single row runs the same kernel as several rows.
        ones = tuple(size == 1 and (axis > 0 or not is_batch_invariant()) for axis, size in enumerate(self.sizes))
        apart = [stride for stride, one in zip(self.strides[:-1], ones[:-1], strict=True) if not one]
        return ArrayProperties(
            str(self.tensor.dtype).removeprefix("torch."),
            index_type,
            ones,
            ones[-1] or self.strides[-1] == 1,
            math.gcd(VECTOR_BYTES // itemsize, *apart, *([] if ones[-1] else [self.sizes[-1]])),
            math.gcd(VECTOR_BYTES, self.tensor.data_ptr()),
        )


def bind_launch(
    id: str,
    kernel: Any,
    tensors: Sequence[torch.Tensor],
    views: Sequence[View],
    integers: Sequence[int],
    constants: Sequence[Any],
    grid: int,
    warps: int,
    occupancy: int | None = None,
) -> Launch:
    """Compile a kernel for its arguments and return its launch over ``grid`` programs.
    tensors: the operation's tensors, inputs first. views: the kernel's arrays, which view these tensors or workspaces.
    Integers, then constants, follow. occupancy: how many programs must fit on an SM. Raises GridTooLargeError."""
    if grid > MAX_PROGRAMS:
        raise GridTooLargeError(id, grid, MAX_PROGRAMS)
    index = "int64" if any(view.needs_int64 for view in views) else "int32"
    known = tuple(view.array_properties(index) for view in views)
    program = Program(kernel, known, len(integers), tuple(constants), warps, occupancy)
    device, recorder = device_of(tensors[0]), recording.get()
    if recorder is not None:
        threads = compiler.threads_per_block(program, device.capability) if recorder.can_compile else warps * WARP
        return recorder.make_launch(
            LaunchStep(
                f"{program.name}, {warps} warps",
                (grid,),
                threads,
                arguments=tuple(integers),
                build=partial(compiler.describe_program, program, device.capability) if recorder.can_compile else None,
                constants=(*program.arrays, *program.constants),
            )
        )
    if package.stand_in is not None:
        launch: Launch = package.stand_in.launch(program, grid, views, integers)
        return launch
    shape = LaunchShape(grid, 1)  # cuTile's launches say 1 thread, and the kernel sets the real number
    function, args = programs.load_program(program, device, compiler.code_and_name), pack_args(tensors, views, integers)
    workspace = [view.tensor for view in views if not any(view.tensor is tensor for tensor in tensors)]
    return programs.make_launch(function, shape, args, tensors, workspace, device)


def pack_args(tensors: Sequence[torch.Tensor], views: Sequence[View], integers: Sequence[int]) -> Parameters:
    """Return a kernel's parameters as cuTile passes them: each array's address, sizes and strides, then the integers.
    ``Parameters`` stores them in another order: first the addresses of all ``tensors``, even of unused ones."""
    words = [tensor.data_ptr() for tensor in tensors]
    starts = []
    for view in views:
        place = next((i for i, tensor in enumerate(tensors) if tensor is view.tensor), len(words))
        if place == len(words):
            words.append(view.tensor.data_ptr())
        starts.append(place)
        for number in (*view.sizes, *view.strides):
            starts.append(len(words))
            words.append(number)
    for number in integers:
        starts.append(len(words))
        words.append(number)
    return Parameters(tuple(words), tuple(starts))
