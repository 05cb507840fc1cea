"""Runs cuTile's kernels on the host as its compiler has made them: their PTX, in the emulator of tests/emulation."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ptx

import kernelzoo.kernels.cutile as backend
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.cutile import compiler, launch
from kernelzoo.kernels.shared import cubin

_kernels = functools.lru_cache(maxsize=None)(ptx.load)


class Machine:
    """What takes a device's place."""

    device: Device = replace(ARCHITECTURES["sm_90"], name="emulated", multiprocessors=6)
    """Few multiprocessors, so that small problems are many for them."""

    def __str__(self) -> str:
        return "the emulator of tests/emulation"

    def launch(self, program: Any, programs: int, views: Sequence[Any], integers: Sequence[int]) -> Callable[[], None]:
        code = cubin.ptx(compiler.load_or_build(program, self.device.capability))
        assert code is not None
        kernel = _kernels(code)[program.name]
        passed = launch.pack_args((), views, integers)
        arguments = [passed.words[start] for start in passed.starts]
        threads = compiler.threads_per_block(program, self.device.capability)

        def run() -> None:
            memory = [(x.tensor.data_ptr(), (x.extent_in_elements + 1) * x.tensor.element_size()) for x in views]
            kernel.launch(programs, threads, arguments, memory=memory)

        return run


def install() -> None:
    """Run the kernels here from now on, in this process. Harmless if done twice."""
    backend.stand_in = Machine()
    backend.compiled_elements = 2**15
