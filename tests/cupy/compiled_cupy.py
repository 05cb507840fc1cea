"""Runs the CUDA C++ kernels on the host as NVRTC has made them: their PTX, in the emulator of tests/emulation."""

import contextlib
import ctypes
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import host_compiler
import ptx
import torch

import kernelzoo.kernels.cupy as backend
from kernelzoo import tables
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.cupy.launch import PROBLEM, At, Plan, Step
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters, grid_axes
from kernelzoo.operations import OPERATIONS

DEVICES = {
    capability: replace(ARCHITECTURES[f"sm_{capability}"], name="emulated", multiprocessors=6)
    for capability in (90, 80)
}
"""By compute capability. Few multiprocessors, so that small problems are many for them."""


@functools.cache
def kernel(code: str, name: str, capability: int, *options: str) -> ptx.Kernel:
    """A kernel of CUDA C++, compiled with the options that CuPy adds: an instance of a template, or the one in C."""
    options = (*options, "-ftz=true", f"-arch=compute_{capability}", "--device-as-default-execution-space")

    def compiled() -> bytes:
        made = compiler.nvrtc.createProgram(code, "", (), ())
        if "<" in name:
            compiler.nvrtc.addNameExpression(made, name)
        try:
            compiler.nvrtc.compileProgram(made, options)
        except compiler.nvrtc.NVRTCError:
            raise ptx.PtxError(compiler.nvrtc.getProgramLog(made)) from None
        return bytes(compiler.nvrtc.getPTX(made))

    version = str(compiler.nvrtc.getVersion())
    text = host_compiler.kept(compiled, "nvrtc", version, code, name, *options).decode().rstrip("\0")
    (made,) = ptx.load(text).values()
    return made


class Machine:
    """What launch.py asks in place of CuPy and the driver: a described device, whose kernels run here."""

    name = "the emulator of tests/emulation"

    def __init__(self, device: Device, edit: Callable[[str], str] = str) -> None:
        self.device, self.edit = device, edit
        self.seeds = itertools.count()
        self.launched: list[tuple[Path, str]] = []
        """Files and names of the kernels that ran."""

    def probe(self) -> tuple[str, ...]:
        if not host_compiler.compiler():
            raise BackendUnavailableError("cupy", "there is no C++ compiler", "install g++, or the package ziglang")
        return ("cpu",)

    def device_of(self, x: object) -> Device:
        return self.device

    def loaded(self, file: Path, plan: Plan, step: Step, device: Device) -> "_Kernel":
        code, name = self.edit(compiler.full_source(file)), compiler.check_kernel_name(step.kernel)
        return _Kernel(self, file, kernel(code, name, device.capability, *compiler.OPTIONS), step, plan, device)


@dataclass(frozen=True)
class _Kernel:
    """A step of a plan, ready to run."""

    machine: Machine
    file: Path
    kernel: ptx.Kernel
    step: Step
    plan: Plan
    device: Device

    def max_resident_blocks(self, threads: int, shared_bytes: int) -> int:
        return 2 * self.device.multiprocessors

    def launcher(self, shape: LaunchShape) -> Callable[[Parameters], At]:
        return lambda parameters: functools.partial(self._launch, shape, parameters)

    def _launch(self, shape: LaunchShape, parameters: Parameters, *addresses: int) -> None:
        values = (ctypes.c_uint64 * len(parameters.words))(*addresses, *parameters.words[len(addresses) :])
        places = [ctypes.addressof(values) + 8 * start for start in parameters.starts]
        self.machine.launched.append((self.file, self.step.kernel))
        self.kernel.launch(
            grid_axes(shape),
            shape.threads,
            (ctypes.c_void_p * len(places))(*places),
            shared_bytes=shape.shared_bytes,
            cluster=shape.cluster,
            cooperative=shape.cooperative,
            dependent=self.device.allows_dependent_launches,
            memory=self._memory(values, addresses, [values[start] for start in parameters.starts[1:]]),
            seed=next(self.machine.seeds),
        )

    def _memory(self, values: Any, addresses: tuple[int, ...], following: list[int]) -> list[tuple[int, int, bool]]:
        """What the kernel may touch: where each tensor lies, and the parts of the workspace."""
        plan, op = self.plan, OPERATIONS[self.file.parent.name]
        g = dict(zip(PROBLEM, (ctypes.c_int64 * len(PROBLEM)).from_buffer(values, 8 * len(addresses)), strict=True))
        sizes = g["rows"] // max(1, g["inner"]), g["n"], g["inner"]
        first, last = ([g[f"{name}_{axis}"] for axis in ("outer", "n", "inner")] for name in ("x", "out"))
        declared = [x.dtype or plan.layout.dtype for x in (*op.inputs.values(), *op.outputs.values())]
        found = []
        for at, strides in enumerate((first, *(tensor[:3] for tensor in plan.others), last)):
            dtype = plan.layout.out_dtype if at == len(addresses) - 1 else declared[at]
            ends = 1 + sum((length - 1) * stride for length, stride in zip(sizes, strides, strict=True) if stride)
            size = ends * getattr(torch, dtype).itemsize if addresses[at] else 0
            written = at >= len(op.inputs)
            before = 0 if written else addresses[at] % 16  # the whole of the first 16-byte word may be read
            found.append((addresses[at] - before, size + before, written))
        for address, argument in zip(following, self.step.arguments, strict=True):
            count = {"partial": plan.partial_bytes, "counters": plan.counter_bytes}.get(str(argument), 0)
            if argument == "partial" and self.step == plan.steps[0]:
                ctypes.memset(address, 0xFF, count)  # what is read before it is written must be noticed
            if count:
                found.append((address, count, True))
        return found


def install(capability: int = 90) -> None:
    """Run the kernels here from now on, in this process. Harmless if done twice."""
    os.environ.setdefault(tables.ENVIRONMENT, "shipped")
    backend.stand_in = Machine(DEVICES[capability])
    backend.compiled_elements = 2**17


@contextlib.contextmanager
def device(described: Device, edit: Callable[[str], str] = str) -> Iterator[Machine]:
    """Within the context that device is the one, and the kernels' source is as ``edit`` makes it."""
    before = backend.stand_in
    backend.stand_in = Machine(described, edit)
    try:
        yield backend.stand_in
    finally:
        backend.stand_in = before
