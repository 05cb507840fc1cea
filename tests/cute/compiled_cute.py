"""Runs CuTe's kernels on the host as its compiler has made them: their PTX, in the emulator of tests/emulation."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import ptx
import torch

import kernelzoo.kernels.cute as backend
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.cute import compiler
from kernelzoo.operations import OPERATIONS

_kernels = functools.lru_cache(maxsize=None)(ptx.load)


def reach(tensor: torch.Tensor) -> tuple[int, int]:
    """The memory of a tensor: its address, and bytes to the end of its last element."""
    extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), (extent + 1) * tensor.element_size()


class Machine:
    """What takes a device's place."""

    device: Device = replace(ARCHITECTURES["sm_90"], name="emulated", multiprocessors=6)
    """Few multiprocessors, so that small problems are many for them."""

    def __str__(self) -> str:
        return "the emulator of tests/emulation"

    def launch(
        self,
        program: Any,
        blocks: int,
        tensors: Sequence[torch.Tensor],
        workspace: Sequence[torch.Tensor],
        words: Sequence[int],
    ) -> Callable[[], None]:
        made = compiler.load_or_build(program, self.device.capability)
        kernel = _kernels(made.ptx)[made.symbol]
        op = OPERATIONS.get(program.function.__module__.split(".")[-2])
        outputs = len(op.outputs) if op is not None else 1

        def run() -> None:
            addresses = [tensor.data_ptr() for tensor in (*tensors, *workspace)]
            arguments = [*addresses, *words[len(addresses) :]]
            of = map(reach, tensors)
            memory = [*((*one, False) for one in islice(of, len(tensors) - outputs)), *of, *map(reach, workspace)]
            kernel.launch(blocks, program.tile.threads, arguments, cluster=program.blocks, memory=memory)

        return run


def install() -> None:
    """Run the kernels here from now on, in this process. Harmless if done twice."""
    backend.stand_in = Machine()
    backend.compiled_elements = 2**15
