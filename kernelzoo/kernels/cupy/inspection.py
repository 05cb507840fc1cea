"""The CUDA C++ kernels as NVRTC compiles them ahead of time, bound and launched on a device that is described.

In place of CuPy's own way to the device stand a compiler that loads nothing and a driver that launches into a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import cupy
from cupy.cuda import nvrtc, runtime
from cupy_backends.cuda.api import driver

from kernelzoo.errors import InspectionError
from kernelzoo.inspect import (
    Architecture,
    Kernel,
    Request,
    Step,
    answer,
    counted,
    described,
    launched,
    occupancy,
    place,
)
from kernelzoo.kernels import cubin

LEAST_CAPABILITY = 80
"""The kernels use instructions of sm_80, and the backend's ``probe`` asks for them."""


@dataclass(frozen=True)
class Compiled:
    """Some instances of a file's templates for one architecture."""

    ptx: str
    cubin: bytes
    log: str
    """The assembler's, with registers and spills."""
    symbols: dict[str, str]
    """The entry of each instance in ptx and cubin."""


def compiled(code: str, instances: tuple[str, ...], capability: int, options: tuple[str, ...]) -> Compiled:
    """Compile as cupy.RawModule does, with the options that it adds. Needs no GPU; raises InspectionError."""
    program = nvrtc.createProgram(code, "", (), ())
    for instance in instances:
        nvrtc.addNameExpression(program, instance)
    added = ("-ftz=true", f"-arch=sm_{capability}", "--device-as-default-execution-space", "--ptxas-options=-v")
    try:
        nvrtc.compileProgram(program, (*options, *added))
    except nvrtc.NVRTCError as error:
        raise InspectionError(f"NVRTC fails for sm_{capability}: {nvrtc.getProgramLog(program)}") from error
    return Compiled(
        nvrtc.getPTX(program).decode().rstrip("\0"),
        nvrtc.getCUBIN(program) + b"\0",  # CuPy cuts the last byte off, taking it for a string's end
        nvrtc.getProgramLog(program),
        {instance: nvrtc.getLoweredName(program, instance) for instance in instances},
    )


@contextmanager
def device(architecture: Architecture, loaded: list[tuple[str, Compiled]], steps: list[Any]) -> Iterator[None]:
    """Within the context CuPy's current device is one of that architecture.

    A function's handle is one more than its place in ``loaded``, which gets each instance with what it was compiled
    to; launches are appended to ``steps``.
    """
    a = architecture
    attributes = {
        getattr(runtime, f"cudaDevAttr{name}"): value
        for name, value in {
            "L2CacheSize": a.l2_bytes,
            "MaxRegistersPerMultiprocessor": a.registers,
            "MaxSharedMemoryPerBlockOptin": a.shared_per_block,
            "MaxSharedMemoryPerMultiprocessor": a.shared_bytes,
            "MaxThreadsPerMultiProcessor": a.threads,
            "MultiProcessorCount": a.multiprocessors,
        }.items()
    }

    class Module:
        def __init__(self, code: str, options: tuple[str, ...], name_expressions: tuple[str, ...]) -> None:
            self._compiled = compiled(code, tuple(name_expressions), a.capability, tuple(options))

        def get_function(self, name: str) -> Any:
            loaded.append((name, self._compiled))
            return SimpleNamespace(kernel=SimpleNamespace(ptr=len(loaded)))

    class Device:
        compute_capability = str(a.capability)

        def __init__(self, index: int) -> None:
            pass

        def __enter__(self) -> None:
            pass

        def __exit__(self, *exception: object) -> None:
            pass

    def blocks(function: int, threads: int, shared_bytes: int) -> int:
        name, made = loaded[function - 1]
        found = cubin.resources(made.cubin, made.symbols[name], a.capability)
        return occupancy(a, found.registers, threads, found.shared_bytes + shared_bytes).blocks

    def launch(cooperative: bool, function: int, *sizes: int) -> None:
        gx, gy, gz, bx, by, bz, shared, *_ = sizes
        # A cluster's size is a property of the kernel.
        name, made = loaded[function - 1]
        found = re.search(rf"{made.symbols[name]}\([^{{]*\.reqnctapercluster (\d+)", made.ptx)
        cluster = (int(found[1]) if found else 1, 1, 1)
        steps.append(Step(function, (gx, gy, gz), (bx, by, bz), cluster, shared, cooperative))

    with ExitStack() as stack:
        for owner, name, value in (
            (cupy, "RawModule", Module),
            (cupy.cuda, "Device", Device),
            (runtime, "deviceGetAttribute", lambda attribute, index: attributes[attribute]),
            (driver, "funcGetAttribute", lambda attribute, function: 0),
            (driver, "funcSetAttribute", lambda function, attribute, value: None),
            (driver, "occupancyMaxActiveBlocksPerMultiprocessor", blocks),
            (driver, "launchKernel", lambda *arguments: launch(False, *arguments)),
            (driver, "launchCooperativeKernel", lambda *arguments: launch(True, *arguments)),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def kernels(request: Request) -> tuple[Kernel, ...]:
    """The kernels of a launch, for NVIDIA; see :func:`kernelzoo.inspect.inspect`."""
    request.require_nvidia("CUDA C++", LEAST_CAPABILITY)
    architecture = request.architecture
    _steps.clear()
    with described(architecture), device(architecture, _loaded, _steps):
        ran = launched(request, _steps, sibling="_{}")
    return tuple(
        step if isinstance(step, Kernel) else _kernel(step, count, _loaded[step.kernel - 1], ran, request)
        for step, count in counted(_steps)
    )


# Of this process: binds keep the handles of what they compiled.
_loaded: list[tuple[str, Compiled]] = []
_steps: list[Any] = []


def _kernel(step: Step, count: int, instance: tuple[str, Compiled], ran: str, request: Request) -> Kernel:
    name, made = instance
    architecture, symbol = request.architecture, made.symbols[name]
    found = cubin.resources(made.cubin, symbol, architecture.capability)
    functions, missing = cubin.disassembly(made.cubin)
    file = Path(__file__).with_name(f"{request.op}.cu")
    text, line, parameters = template(file, name)
    shared = found.shared_bytes + step.dynamic_shared_bytes
    return Kernel(
        name=name,
        language="CUDA C++",
        implementation=ran,
        arch=architecture.name,
        device=str(architecture),
        source=text,
        source_file=place(file, line),
        ptx=made.ptx,
        sass=functions.get(symbol),
        sass_missing=missing,
        registers=found.registers,
        local_bytes=found.local_bytes,
        shared_bytes=shared,
        grid=step.grid,
        block=step.block,
        cluster=step.cluster,
        cooperative=step.cooperative,
        launches=count,
        occupancy=occupancy(architecture, found.registers, step.block[0], shared),
        constants=parameters,
    )


@cache
def template(file: Path, instance: str) -> tuple[str, int, dict[str, int | float | str | bool]]:
    """Source of a kernel's template in a file, its first line's number, and the arguments of an instance by name."""
    name, _, arguments = instance.rstrip(">").partition("<")
    code = file.read_text(encoding="utf-8")
    pattern = rf"^(?:template <([^;{{}}]*?)>\n)?__global__[^;{{}}]*?\s{name}\([^;{{]*\{{.*?^\}}$"
    found = re.search(pattern, code, re.DOTALL | re.MULTILINE)
    if found is None:
        raise InspectionError(f"{file.name} has no kernel {name}")
    names = [parameter.split()[-1] for parameter in (found[1] or "").split(",") if parameter]
    values = [_value(argument.strip()) for argument in arguments.split(",") if argument]
    return found[0], code.count("\n", 0, found.start()) + 1, dict(zip(names, values, strict=True))


def _value(argument: str) -> int | str | bool:
    return int(argument) if argument.isdigit() else {"true": True, "false": False}.get(argument, argument)


if __name__ == "__main__":
    answer(kernels)
