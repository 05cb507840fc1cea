"""Triton's kernels compiled ahead of time by the real bind functions, for a device that is described and not there.

Within ``device(arch)`` Triton believes that the current device is of that architecture: ``kernel.warmup`` then
specialises and compiles exactly as it would there. Loaded programs and launched grids are recorded; nothing runs.
"""

from __future__ import annotations

import os

if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "0"  # an interpreter compiles nothing; read at import

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from kernelzoo.inspect import (
    ARCHITECTURES,
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
from kernelzoo.kernels.shared import cubin
from kernelzoo.kernels.triton import too_old

if _why := too_old(triton.__version__):
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask


class DescribedDriver:
    """What ``triton.runtime.driver.active`` is asked for, and no more.

    ``programs`` lists every kernel that was compiled, ``launches`` every launch, in order, since they were emptied.
    """

    def __init__(self, architecture: Architecture) -> None:
        a = architecture
        # Triton keeps its caches by device: one index to each architecture, which no device here has.
        self._index = 1000 + list(ARCHITECTURES).index(a.name)
        self._target = GPUTarget("cuda", a.capability, 32) if a.is_nvidia else GPUTarget("hip", a.name, a.warp_size)
        self._architecture = a
        properties = {
            "multiprocessor_count": a.multiprocessors,
            "max_num_regs": a.registers_per_block,
            "max_shared_mem": a.shared_per_block,
            "max_threads_per_sm": a.threads,
            "warpSize": a.warp_size,
        }
        self.programs: list[Any] = []
        self.launches: list[Any] = []
        self.known: dict[str, tuple[Any, JITFunction, dict[str, Any]]] = {}
        """By its hash, every program so far, what it was compiled from and with which constants."""
        self.launcher_cls = self._launcher
        self.utils = SimpleNamespace(
            get_device_properties=lambda index: properties,
            load_binary=self._load,
            unload_module=lambda module: None,
        )

    @property
    def grids(self) -> list[tuple[int, ...]]:
        """The grid of every launch."""
        return [step.grid for step in self.launches if isinstance(step, Step)]

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return self._index

    def get_current_stream(self, device: int) -> int:
        return 0

    def _load(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        found = resources(binary, name, self._architecture)
        # Spills are counted in registers, as a driver does; scalar ones of AMD go to lanes of vector registers.
        spills = found.local_bytes // 4
        if not self._architecture.is_nvidia:
            spills = _msgpack_int(binary, b".vgpr_spill_count")
        return 1, 1, found.registers, spills, 1024

    def _launcher(self, src: Any, metadata: Any) -> Any:
        def launch(x: int, y: int, z: int, *args: Any) -> None:
            block = (metadata.num_warps * self._target.warp_size, 1, 1)
            cluster = (metadata.num_ctas, 1, 1)
            self.launches.append(
                Step(metadata.hash, (x, y, z), block, cluster, metadata.shared, metadata.launch_cooperative_grid)
            )

        return launch


@functools.cache
def _driver(arch: str) -> DescribedDriver:
    """One driver to each architecture: Triton's kernels stay loaded, and launch through the one that loaded them."""
    return DescribedDriver(ARCHITECTURES[arch])


@contextmanager
def device(arch: str) -> Iterator[DescribedDriver]:
    """Within the context Triton's current device is one of that architecture, and compiled programs are recorded."""
    from kernelzoo.kernels.triton import program as programs  # not before: it may be imported within ``described``

    driver = _driver(arch)
    driver.programs, driver.launches = [], []
    warmup = JITFunction.warmup

    def recording(self: Any, *args: Any, **options: Any) -> Any:
        program = warmup(self, *args, **options)
        if all(program is not known for known in driver.programs):
            driver.programs.append(program)
        chosen = {p.name: value for p, value in zip(self.params, args, strict=False) if p.is_constexpr}
        chosen |= {name: value for name, value in options.items() if name not in ("grid", "enable_fp_fusion")}
        driver.known[program.metadata.hash] = program, self, chosen
        return program

    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(driver)
    JITFunction.warmup = recording
    try:
        # torch's own, of a build for CUDA, asks the real driver.
        with mock.patch.object(programs, "_current_stream", driver.get_current_stream):
            yield driver
    finally:
        JITFunction.warmup = warmup
        triton.runtime.driver._active = before


@contextmanager
def assumed(architecture: Architecture) -> Iterator[None]:
    """Within the context, bind functions plan and compile for that architecture's device."""
    with device(architecture.name):
        yield


def assembly(program: Any) -> str:
    """PTX, or AMD assembly, of a compiled kernel."""
    text: str = program.asm["ptx"] if "ptx" in program.asm else program.asm["amdgcn"]
    return text


@functools.cache
def resources(binary: bytes, name: str, architecture: Architecture) -> cubin.Resources:
    """What a kernel takes, as its cubin or hsaco says; registers are vector registers on AMD."""
    if architecture.is_nvidia:
        return cubin.resources(binary, name, architecture.capability)
    return cubin.Resources(
        _msgpack_int(binary, b".vgpr_count"),
        _msgpack_int(binary, b".private_segment_fixed_size"),
        0,  # all of it is dynamic
    )


def _msgpack_int(binary: bytes, key: bytes) -> int:
    """The integer that follows a key in the metadata of an AMD binary."""
    at = binary.index(key) + len(key)
    width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(binary[at], 0)
    return int.from_bytes(binary[at + 1 : at + 1 + width], "big") if width else binary[at]


def kernels(request: Request) -> tuple[Kernel, ...]:
    """The kernels of a launch, for NVIDIA and AMD; see :func:`kernelzoo.inspect.inspect`."""
    with described(request.architecture), device(request.arch) as driver:
        steps = driver.launches
        ran = launched(request, steps)
        return tuple(
            step if isinstance(step, Kernel) else _kernel(step, count, driver, ran, request.architecture)
            for step, count in counted(steps)
        )


def _kernel(step: Step, count: int, driver: DescribedDriver, ran: str, architecture: Architecture) -> Kernel:
    program, function, chosen = driver.known[step.kernel]
    found = resources(program.kernel, program.name, architecture)
    lines, first = inspect.getsourcelines(function.fn)
    functions, missing = {program.name: program.asm.get("amdgcn")}, None
    if architecture.is_nvidia:
        functions, missing = cubin.disassembly(program.kernel)
    shared = found.shared_bytes + step.dynamic_shared_bytes
    return Kernel(
        name=function.fn.__name__,
        language="triton",
        implementation=ran,
        arch=architecture.name,
        device=str(architecture),
        source="".join(lines),
        source_file=place(inspect.getfile(function.fn), first),
        ptx=program.asm.get("ptx"),
        sass=functions.get(program.name),
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
        constants={n: plain(v.value if isinstance(v, tl.constexpr) else v) for n, v in chosen.items()},
    )


if __name__ == "__main__":
    answer(kernels)
