"""Numba's CUDA kernels compiled ahead of time, bound and launched on a device that is described.

Numba makes PTX, and the toolkit's assembler machine code of it, as for a device that is there; the driver that would
load and launch it is replaced by one that launches into a list.
"""

from __future__ import annotations

import os
import tempfile

if __name__ == "__main__":
    os.environ["NUMBA_ENABLE_CUDASIM"] = "0"  # a simulator compiles nothing; read at import
    # Machine code out of a cache comes without its PTX.
    _EMPTY = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = _EMPTY.name

import ctypes
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

from cuda.bindings import driver as bindings

from kernelzoo.errors import InspectionError
from kernelzoo.inspect import ARCHITECTURES, Architecture, Kernel, Request, answer, described, launched, place, plain
from kernelzoo.kernels.described_driver import Driver, Loaded
from kernelzoo.kernels.numba import launch, view
from kernelzoo.kernels.numba.launch import Source

LEAST_CAPABILITY = 80
"""Halves two at once and a minimum that keeps NaN are sm_80's, and the backend's ``probe`` asks for it."""


def loaded(source: Source, ptx: str, cubin: bytes) -> Loaded:
    """A kernel that Numba compiled; its PTX has one entry."""
    found = re.search(r"\.visible \.entry (\w+)", ptx)
    assert found is not None, "Numba's PTX of a kernel has one entry"
    return Loaded(source, ptx, cubin, found[1])


@contextmanager
def device(driver: Driver) -> Iterator[None]:
    """Within the context cuda.bindings, and the driver in C, are those of the described device."""
    sources: dict[str, Source] = {}
    made: dict[bytes, Loaded] = {}
    to_ptx, to_cubin = launch.to_ptx, launch.to_cubin

    def ptx_of(source: Source, capability: tuple[int, int]) -> str:
        ptx = to_ptx(source, capability)
        sources[ptx] = source
        return ptx

    def cubin_of(ptx: str, capability: tuple[int, int]) -> bytes:
        cubin = to_cubin(ptx, capability)
        made[cubin] = loaded(sources[ptx], ptx, cubin)
        return cubin

    def address(name: bytes, version: int, flags: int) -> tuple[int, int, int]:
        function = getattr(driver.library, name.decode())
        return 0, ctypes.cast(function, ctypes.c_void_p).value or 0, 0

    def allow(function: int, attribute: int, value: int) -> tuple[int]:
        driver.allow(function, attribute, value)
        return (0,)

    # A module's handle is its kernel's, of which it has one.
    replaced: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (launch, "to_ptx", ptx_of),
        (launch, "to_cubin", cubin_of),
        (bindings, "cuDeviceGetAttribute", lambda attribute, device: (0, driver.attribute(attribute))),
        (bindings, "cuModuleLoadData", lambda cubin: (0, driver.load(made[cubin]))),
        (bindings, "cuModuleGetFunction", lambda module, name: (0, module)),
        (bindings, "cuFuncGetAttribute", lambda attribute, function: (0, driver.granted(function, attribute))),
        (bindings, "cuFuncSetAttribute", allow),
        (bindings, "cuOccupancyMaxActiveBlocksPerMultiprocessor", lambda *arguments: (0, driver.blocks(*arguments))),
        (bindings, "cuGetProcAddress", address),
    )
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@contextmanager
def assumed(architecture: Architecture) -> Iterator[None]:
    """Within the context, bind functions plan and compile for that architecture's device. Raises InspectionError."""
    if not architecture.is_nvidia:
        raise InspectionError(f"Numba CUDA is for NVIDIA's devices, and not for {architecture.name}")
    with device(_driver(architecture.name)):
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    """What is kept by a device's index is of another device now."""
    launch._properties.cache_clear()
    launch._kernels.clear()
    view._plans.clear()


def kernels(request: Request) -> tuple[Kernel, ...]:
    """The kernels of a launch, for NVIDIA; see :func:`kernelzoo.inspect.inspect`."""
    request.require_nvidia("Numba CUDA", LEAST_CAPABILITY)
    driver = _driver(request.arch)
    driver.steps.clear()
    with described(request.architecture), device(driver):
        ran = launched(request, driver.steps, sibling="plan_{}")

    def facts(kernel: Loaded) -> dict[str, Any]:
        function = kernel.origin.function
        lines, first = inspect.getsourcelines(function)
        constants = inspect.getclosurevars(function).nonlocals.items()
        return {
            "name": function.__name__,
            "language": "Numba CUDA",
            "implementation": ran,
            "source": textwrap.dedent("".join(lines)),
            "source_file": place(inspect.getfile(function), first),
            # What the source names in capitals; the rest of what it closes over are functions and types.
            "constants": {name: plain(value) for name, value in constants if name.isupper()},
        }

    return driver.kernels(facts)


@cache
def _driver(arch: str) -> Driver:
    """One driver to each architecture: binds keep the handles of what they loaded, and the functions they launch by."""
    return Driver(ARCHITECTURES[arch])


if __name__ == "__main__":
    answer(kernels)
