"""The CUDA C++ kernels as NVRTC compiles them ahead of time, bound and launched on a device that is described.

In place of CuPy's own way to the device stand a compiler that loads nothing and a driver that launches into a list.
"""

from __future__ import annotations

import ctypes
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
from cupy_backends.cuda.api import driver as cupy_driver

from kernelzoo.errors import InspectionError
from kernelzoo.inspect import ARCHITECTURES, Architecture, Kernel, Request, answer, described, launched, place
from kernelzoo.kernels.cupy import module
from kernelzoo.kernels.described_driver import Driver, Loaded

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
def device(driver: Driver) -> Iterator[None]:
    """Within the context CuPy, and the driver in C, are those of the described device."""
    capability = driver.attribute(75) * 10 + driver.attribute(76)
    cdll = ctypes.CDLL

    class Module:
        def __init__(self, code: str, options: tuple[str, ...], name_expressions: tuple[str, ...]) -> None:
            self._made = compiled(code, tuple(name_expressions), capability, tuple(options))

        def get_function(self, name: str) -> Any:
            kernel = Loaded(name, self._made.ptx, self._made.cubin, self._made.symbols[name])
            return SimpleNamespace(kernel=SimpleNamespace(ptr=driver.load(kernel)))

    class Device:
        compute_capability = str(capability)

        def __init__(self, index: int) -> None:
            pass

        def __enter__(self) -> None:
            pass

        def __exit__(self, *exception: object) -> None:
            pass

    with ExitStack() as stack:
        for owner, name, value in (
            (cupy, "RawModule", Module),
            (cupy.cuda, "Device", Device),
            (runtime, "deviceGetAttribute", lambda attribute, index: driver.attribute(attribute)),
            (cupy_driver, "funcGetAttribute", lambda attribute, function: driver.granted(function, attribute)),
            (cupy_driver, "funcSetAttribute", driver.allow),
            (cupy_driver, "occupancyMaxActiveBlocksPerMultiprocessor", driver.blocks),
            (module, "_current_stream", lambda index: 0),  # torch's own, of a build for CUDA, asks the real driver
            (ctypes, "CDLL", lambda name, *a, **k: driver.library if name == "libcuda.so.1" else cdll(name, *a, **k)),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@contextmanager
def assumed(architecture: Architecture) -> Iterator[None]:
    """Within the context, bind functions plan and compile for that architecture's device. Raises InspectionError."""
    if not architecture.is_nvidia or architecture.capability < LEAST_CAPABILITY:
        raise InspectionError(f"CUDA C++ here is for sm_{LEAST_CAPABILITY} and later, and not for {architecture.name}")
    with device(_driver(architecture.name)):
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    """What is kept by a device's index is of another device now."""
    module.device_of.cache_clear()
    module._ready.cache_clear()
    module._compiled.cache_clear()


def kernels(request: Request) -> tuple[Kernel, ...]:
    """The kernels of a launch, for NVIDIA; see :func:`kernelzoo.inspect.inspect`."""
    request.require_nvidia("CUDA C++", LEAST_CAPABILITY)
    driver = _driver(request.arch)
    driver.steps.clear()
    with described(request.architecture), device(driver):
        ran = launched(request, driver.steps, sibling="_{}")
    file = Path(__file__).with_name(f"{request.op}.cu")

    def facts(kernel: Loaded) -> dict[str, Any]:
        text, line, parameters = template(file, kernel.origin)
        return {
            "name": kernel.origin,
            "language": "CUDA C++",
            "implementation": ran,
            "source": text,
            "source_file": place(file, line),
            "constants": parameters,
        }

    return driver.kernels(facts)


@cache
def _driver(arch: str) -> Driver:
    """One driver to each architecture: binds keep the handles of what they loaded, and the functions they launch by."""
    return Driver(ARCHITECTURES[arch])


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
