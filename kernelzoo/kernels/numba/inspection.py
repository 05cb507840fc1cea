"""Numba's CUDA kernels compiled ahead of time, bound and launched on a device that is described.

Numba makes PTX, and the toolkit's assembler machine code of it, as for a device that is there; the driver that would
load and launch it is replaced by one that launches into a list.
"""

from __future__ import annotations

import os

if __name__ == "__main__":
    os.environ["NUMBA_ENABLE_CUDASIM"] = "0"  # a simulator compiles nothing; read at import

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from cuda.bindings import driver

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
    plain,
)
from kernelzoo.kernels import cubin
from kernelzoo.kernels.numba import launch
from kernelzoo.kernels.numba.launch import Source


@dataclass(frozen=True, eq=False)
class Compiled:
    """A kernel in machine code for one architecture."""

    source: Source
    ptx: str
    cubin: bytes

    @property
    def symbol(self) -> str:
        """Its entry in ptx and cubin."""
        found = re.search(r"\.visible \.entry (\w+)", self.ptx)
        assert found is not None, "Numba's PTX of a kernel has one entry"
        return found[1]


@contextmanager
def device(architecture: Architecture, loaded: list[Compiled], steps: list[Any]) -> Iterator[None]:
    """Within the context the driver's device is one of that architecture.

    A module's handle, and its function's, is one more than its place in ``loaded``; launches are appended to ``steps``.
    """
    sources: dict[str, Source] = {}
    assembled: dict[bytes, str] = {}
    to_ptx, to_cubin = launch.to_ptx, launch.to_cubin

    def ptx_of(source: Source, capability: tuple[int, int]) -> str:
        ptx = to_ptx(source, capability)
        sources[ptx] = source
        return ptx

    def cubin_of(ptx: str, capability: tuple[int, int]) -> bytes:
        made = to_cubin(ptx, capability)
        assembled[made] = ptx
        return made

    def load(made: bytes) -> tuple[int, int]:
        ptx = assembled[made]
        loaded.append(Compiled(sources[ptx], ptx, made))
        return 0, len(loaded)

    def blocks(function: int, threads: int, shared_bytes: int) -> tuple[int, int]:
        made = loaded[function - 1]
        found = cubin.resources(made.cubin, made.symbol, architecture.capability)
        return 0, occupancy(architecture, found.registers, threads, found.shared_bytes + shared_bytes).blocks

    def run(function: int, *sizes: int) -> tuple[int]:
        gx, gy, gz, bx, by, bz, shared, *_ = sizes
        steps.append(Step(function, (gx, gy, gz), (bx, by, bz), (1, 1, 1), shared))
        return (0,)

    def run_extended(c: Any, function: int, *_: int) -> tuple[int]:
        kinds = driver.CUlaunchAttributeID
        values = {attribute.id: attribute.value for attribute in c.attrs[: c.numAttrs]}
        dim = values.get(kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        cooperative = values.get(kinds.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        steps.append(
            Step(
                function,
                (c.gridDimX, c.gridDimY, c.gridDimZ),
                (c.blockDimX, c.blockDimY, c.blockDimZ),
                (dim.clusterDim.x, dim.clusterDim.y, dim.clusterDim.z) if dim is not None else (1, 1, 1),
                c.sharedMemBytes,
                cooperative is not None and bool(cooperative.cooperative),
            )
        )
        return (0,)

    def run_cooperative(function: int, *sizes: int) -> tuple[int]:
        gx, gy, gz, bx, by, bz, shared, *_ = sizes
        steps.append(Step(function, (gx, gy, gz), (bx, by, bz), (1, 1, 1), shared, cooperative=True))
        return (0,)

    replaced: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (launch, "to_ptx", ptx_of),
        (launch, "to_cubin", cubin_of),
        (driver, "cuModuleLoadData", load),
        (driver, "cuModuleGetFunction", lambda module, name: (0, module)),
        (driver, "cuFuncSetAttribute", lambda function, attribute, value: (0,)),
        (driver, "cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks),
        (driver, "cuLaunchKernel", run),
        (driver, "cuLaunchKernelEx", run_extended),
        (driver, "cuLaunchCooperativeKernel", run_cooperative),
    )
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def kernels(request: Request) -> tuple[Kernel, ...]:
    """The kernels of a launch, for NVIDIA; see :func:`kernelzoo.inspect.inspect`."""
    request.require_nvidia("Numba CUDA")
    _steps.clear()
    with described(request.architecture), device(request.architecture, _loaded, _steps):
        ran = launched(request, _steps, sibling="plan_{}")
    return tuple(
        step if isinstance(step, Kernel) else _kernel(step, count, _loaded[step.kernel - 1], ran, request.architecture)
        for step, count in counted(_steps)
    )


# Of this process: binds keep the handles of what they compiled, and what they launch with.
_loaded: list[Compiled] = []
_steps: list[Any] = []


def _kernel(step: Step, count: int, made: Compiled, ran: str, architecture: Architecture) -> Kernel:
    function = made.source.function
    found = cubin.resources(made.cubin, made.symbol, architecture.capability)
    functions, missing = cubin.disassembly(made.cubin)
    lines, first = inspect.getsourcelines(function)
    constants = inspect.getclosurevars(function).nonlocals.items()
    shared = found.shared_bytes + step.dynamic_shared_bytes
    return Kernel(
        name=function.__name__,
        language="Numba CUDA",
        implementation=ran,
        arch=architecture.name,
        device=str(architecture),
        source=textwrap.dedent("".join(lines)),
        source_file=place(inspect.getfile(function), first),
        ptx=made.ptx,
        sass=functions.get(made.symbol),
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
        # What the source names in capitals; the rest of what it closes over are functions and types.
        constants={name: plain(value) for name, value in constants if name.isupper()},
    )


if __name__ == "__main__":
    answer(kernels)
