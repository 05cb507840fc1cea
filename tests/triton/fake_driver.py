"""A Triton driver with no device behind it, so that kernels are compiled for one by the real bind functions.

Within ``device(arch)`` Triton believes that the current device is of that architecture: ``kernel.warmup`` then
specialises and compiles exactly as it would there. Loaded programs and launched grids are recorded; nothing runs.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction


@dataclass(frozen=True)
class Chip:
    """One architecture: its target, and the properties that its driver reports (see occupancy.Device)."""

    target: GPUTarget
    properties: dict[str, int]


def _chip(vendor: str, arch: Any, warp_size: int, sms: int, registers: int, shared: int, threads: int) -> Chip:
    return Chip(
        GPUTarget(vendor, arch, warp_size),
        {
            "multiprocessor_count": sms,
            "max_num_regs": registers,
            "max_shared_mem": shared,
            "max_threads_per_sm": threads,
            "warpSize": warp_size,
        },
    )


CHIPS = {
    "sm_80": _chip("cuda", 80, 32, 108, 65536, 163 * 1024, 2048),  # A100
    "sm_90": _chip("cuda", 90, 32, 132, 65536, 227 * 1024, 2048),  # H200
    "sm_100": _chip("cuda", 100, 32, 148, 65536, 227 * 1024, 2048),  # B200
    "sm_120": _chip("cuda", 120, 32, 170, 65536, 99 * 1024, 1536),  # RTX 5090
    "gfx942": _chip("hip", "gfx942", 64, 304, 65536, 64 * 1024, 2048),  # MI300X
}


@dataclass(frozen=True)
class Resources:
    """What a program takes of a multiprocessor, as its binary says."""

    registers: int
    spills: int
    """Bytes of stack to a thread (NVIDIA; no kernel here has arrays, so they are spills), or vector registers (AMD)."""


class FakeDriver:
    """What ``triton.runtime.driver.active`` is asked for, and no more.

    ``programs`` lists every kernel that was compiled, ``grids`` every launch, in order.
    """

    def __init__(self, arch: str) -> None:
        self._chip = CHIPS[arch]
        self._index = list(CHIPS).index(arch)  # Triton keeps its caches by device: one index to each architecture
        self.programs: list[Any] = []
        self.grids: list[tuple[int, int, int]] = []
        self.launcher_cls = lambda src, metadata: lambda x, y, z, *args: self.grids.append((x, y, z))
        self.utils = SimpleNamespace(
            get_device_properties=lambda index: self._chip.properties,
            load_binary=self._load,
            unload_module=lambda module: None,
        )

    def get_current_target(self) -> GPUTarget:
        return self._chip.target

    def get_current_device(self) -> int:
        return self._index

    def get_current_stream(self, device: int) -> int:
        return 0

    def _load(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        found = resources(binary)
        return 1, 1, found.registers, found.spills, 1024


@functools.cache
def _driver(arch: str) -> FakeDriver:
    """One driver to each architecture: Triton's kernels stay loaded, and launch through the one that loaded them."""
    return FakeDriver(arch)


@contextmanager
def device(arch: str) -> Iterator[FakeDriver]:
    """Within the context Triton's current device is one of that architecture, and compiled programs are recorded."""
    driver = _driver(arch)
    driver.programs, driver.grids = [], []
    warmup = JITFunction.warmup

    def recording(self: Any, *args: Any, **options: Any) -> Any:
        program = warmup(self, *args, **options)
        if all(program is not known for known in driver.programs):
            driver.programs.append(program)
        return program

    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(driver)
    JITFunction.warmup = recording
    try:
        yield driver
    finally:
        JITFunction.warmup = warmup
        triton.runtime.driver._active = before


def assembly(program: Any) -> str:
    """PTX, or AMD assembly, of a compiled kernel."""
    return program.asm["ptx"] if "ptx" in program.asm else program.asm["amdgcn"]


def sass(program: Any) -> str:
    """What the assembler made of an NVIDIA kernel."""
    return _tool("nvdisasm", program.kernel)


@functools.cache
def resources(binary: bytes) -> Resources:
    """Registers and spills of a cubin or hsaco."""
    if b".vgpr_spill_count" in binary:
        # Scalar registers are spilled to lanes of vector registers, not to memory.
        return Resources(_msgpack_int(binary, b".vgpr_count"), _msgpack_int(binary, b".vgpr_spill_count"))
    usage = _tool("cuobjdump", binary, "--dump-resource-usage")
    numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return Resources(numbers["REG"], numbers["STACK"] + numbers["LOCAL"])


def _msgpack_int(binary: bytes, key: bytes) -> int:
    """The integer that follows a key in the metadata of an AMD binary."""
    at = binary.index(key) + len(key)
    width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(binary[at], 0)
    return int.from_bytes(binary[at + 1 : at + 1 + width], "big") if width else binary[at]


def _tool(name: str, binary: bytes, *options: str) -> str:
    """Output of one of the CUDA tools that Triton's wheel carries."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        return subprocess.run([tool, *options, file.name], check=True, capture_output=True, text=True).stdout
