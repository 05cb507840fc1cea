"""Launch kernels written in CuTe on torch's stream. Binding compiles a kernel once, and packs its arguments.

CuTe's usual way is to call the result of ``cute.compile``, which converts tensors and the stream at every call. Here a
launch is one ``cuLaunchKernelEx``, see :mod:`kernelzoo.kernels.shared.driver`."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

import kernelzoo.kernels.cute as package
from kernelzoo import device as devices
from kernelzoo.device import Device, make_gpu_current
from kernelzoo.errors import GridTooLargeError
from kernelzoo.kernels.cute import compiler, tiles
from kernelzoo.kernels.cute.compiler import PointerProperties, Program
from kernelzoo.kernels.cute.tiles import Problem, Tile
from kernelzoo.kernels.shared import driver, programs
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters
from kernelzoo.launch import Launch, LaunchStep, chain_launches, recording
from kernelzoo.layout import VECTOR_BYTES, cdiv


def device_of(x: torch.Tensor) -> Device:
    found: Device = devices.of(x) if package.stand_in is None else package.stand_in.device
    return found


def bind(
    id: str,
    kernel: Any,
    tensors: Sequence[torch.Tensor],
    problem: Problem,
    tile: Tile,
    constants: Sequence[Any] = (),
    integers: Sequence[int] = (),
    workspace: Sequence[torch.Tensor] = (),
    blocks: int | None = None,
    cluster: int = 1,
) -> Launch:
    """Compile a kernel for its arguments, and return its launch over ``blocks`` blocks, by default one per tile.
    ``tensors``: the operation's tensors. Their addresses are the first arguments. Raises GridTooLargeError."""
    count = tile.count_tiles(problem.row_count) * cluster if blocks is None else blocks
    if count > driver.MAX_GRID_X:
        raise GridTooLargeError(id, count, driver.MAX_GRID_X)
    pointers = tuple(map(_pointer_properties, (*tensors, *workspace)))
    program = Program(kernel, pointers, len(problem.strides), len(integers), tuple(constants), tile, cluster)
    device, recorder = device_of(tensors[0]), recording.get()
    if recorder is not None:
        return recorder.make_launch(
            LaunchStep(
                f"{program.name}, {tile.threads} threads",
                (count,),
                tile.threads,
                cluster=cluster,
                arguments=tuple(integers),
                build=partial(compiler.describe_program, program, device.capability) if recorder.can_compile else None,
                constants=(*pointers, *program.constants, tile),
            )
        )
    words = parameter_words(tensors, workspace, problem, integers)
    if package.stand_in is not None:
        launch: Launch = package.stand_in.launch(program, count, tensors, workspace, words)
        return launch
    shape = LaunchShape(count, tile.threads, cluster=cluster)
    function = programs.load_program(program, device, compiler.code_and_symbol)
    with make_gpu_current(device.index):
        driver.raise_launch_limits(function, shape)
    return programs.make_launch(function, shape, Parameters.from_words(*words), tensors, workspace, device)


def launch_in_parts(
    id: str,
    kernels: Sequence[Any],
    tensors: Sequence[torch.Tensor],
    problem: Problem,
    tile: Tile,
    result_dtypes: Sequence[torch.dtype],
    constants: Sequence[Any] = (),
) -> Launch:
    """Return a launch of each kernel, with several blocks per tile. The blocks store partial results in a workspace.
    ``result_dtypes``: of the numbers stored per row. A single kernel also gets, and resets, counters of blocks."""
    x, count = tensors[0], tile.count_tiles(problem.row_count)
    plan = tiles.count_row_parts(problem, tile, device_of(x))
    room = [x.new_empty(problem.row_count * plan.parts, dtype=dtype) for dtype in result_dtypes]
    if len(kernels) == 1:
        room.append(x.new_zeros(count, dtype=torch.int32))
    blocks = count * plan.parts
    return chain_launches(*(bind(id, one, tensors, problem, tile, constants, plan, room, blocks) for one in kernels))


def launch_gradient_kernels(
    id: str,
    input_grad_kernel: Any,
    weight_grad_kernel: Any,
    tensors: Sequence[torch.Tensor],
    problem: Problem,
    constants: Sequence[Any],
    values_per_row: int,
) -> Launch:
    """Return two launches: of input gradients and ``values_per_row`` values per row, then of sums over all rows."""
    x, tile = tensors[0], tiles.sum_over_rows_tile(problem)
    room = [x.new_empty(problem.row_count, dtype=tiles.wide_dtype(x.dtype)) for _ in range(values_per_row)]
    blocks = cdiv(problem.row_length, tile.block_length)
    second = bind(id, weight_grad_kernel, tensors, problem, tile, workspace=room, blocks=blocks)
    if problem.row_count == 0:
        return second
    first = tiles.read_once_tile(problem)
    return chain_launches(bind(id, input_grad_kernel, tensors, problem, first, constants, workspace=room), second)


def parameter_words(
    tensors: Sequence[torch.Tensor], workspace: Sequence[torch.Tensor], problem: Problem, integers: Sequence[int]
) -> tuple[int, ...]:
    """Return a compiled kernel's parameters, each an integer: addresses, numbers of rows, strides, ``integers``."""
    addresses = [tensor.data_ptr() for tensor in (*tensors, *workspace)]
    strides = [number for one in problem.strides for number in one[:3]]
    return (*addresses, problem.row_length, problem.row_count, problem.rows_per_group, *strides, *integers)


def _pointer_properties(tensor: torch.Tensor) -> PointerProperties:
    """Return the properties of a tensor's address for which a kernel is compiled."""
    return PointerProperties(str(tensor.dtype).removeprefix("torch."), math.gcd(VECTOR_BYTES, tensor.data_ptr()))
