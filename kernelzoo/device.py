"""What a kernel asks of a device: one that is here, or one that is described.

``current()`` and ``of(x)`` answer for the real device, or within ``assumed(device)`` for that one: launch tables then
choose as they would there, and kernels are compiled for it, without a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelzoo.errors import DeviceLostError, NoRoomError

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch

KIB, MIB = 1024, 1024**2


def no_room(what: str, asked: int) -> NoRoomError:
    """The error for so many bytes of the host's memory, which it has not."""
    asked_for = f"{what} asks for {asked / 1e9:.1f} GB of memory"
    return NoRoomError(f"{asked_for}, and {free_memory() / 1e9:.1f} GB are free on the host")


def free_memory() -> int:
    """Bytes of the host's memory that can be taken."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * KIB for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Device:
    """A device, and a multiprocessor (SM, or compute unit) of it.

    Registers are 32 bits wide, memory is in bytes; all but the first five are for one multiprocessor.
    """

    arch: str
    """``sm_90``, or AMD's name of the architecture; "" where kernels run in an interpreter or a simulator."""
    name: str
    """The product."""
    multiprocessors: int
    l2_bytes: int
    """As the driver reports it."""
    bandwidth: float
    """Of the memory by its data sheet, in bytes per second: more than any kernel reaches. 0 if unknown."""
    threads: int
    blocks: int
    shared_bytes: int
    shared_per_block: int
    """What one block may ask for."""
    registers: int = 65536
    registers_per_block: int = 65536
    """As the driver reports it: on AMD, half of the registers."""
    register_unit: int = 256
    """Registers are given to a warp in multiples of this, out of its quarter of the registers."""
    shared_unit: int = 128
    """Shared memory is given to a block in multiples of this."""
    shared_reserved: int = 1024
    """Shared memory that the system takes for itself of each block."""
    warp_size: int = 32
    index: int = -1
    """Its number where it is here; negative where it is described, which has the shipped launch tables."""

    def __hash__(self) -> int:
        return hash((self.arch, self.name, self.index))  # which all but say the rest: plans are kept by device

    @property
    def vendor(self) -> str:
        """``cuda``, ``hip``, or ``cpu`` for what runs on the host."""
        return "cuda" if self.is_nvidia else "hip" if self.arch else "cpu"

    @property
    def is_nvidia(self) -> bool:
        return self.arch.startswith("sm_")

    @property
    def capability(self) -> int:
        """Compute capability as one number, 90 for 9.0; 0 for what is not NVIDIA's."""
        return int(self.arch.removeprefix("sm_")) if self.is_nvidia else 0

    @property
    def dependent_launches(self) -> bool:
        """Whether a launch may be prepared while the one before it ends, and kernels wait for that end themselves."""
        return self.capability >= 90

    @property
    def cluster_blocks(self) -> int:
        """Blocks to a cluster at most: 16, once allowed, on Hopper and data-centre Blackwell, 8 later, else 1."""
        if self.capability < 90:
            return 1
        return 16 if self.capability // 10 in (9, 10) else 8

    @property
    def described(self) -> bool:
        """Whether it is described, and kernels can be compiled for it and not run."""
        return self.index < 0

    def warps(self, threads: int) -> int:
        """Warps that hold so many threads: at least one, and at most the 1024 threads that a block may have."""
        return max(1, min(threads, 1024) // self.warp_size)

    def __str__(self) -> str:
        return f"{self.name}, {self.multiprocessors} multiprocessors, {self.l2_bytes / MIB:g} MiB of L2"


# NVIDIA: the table of technical specifications per compute capability in the CUDA C++ programming guide; the same in
# cuda/__device/arch_traits.h of NVIDIA's CCCL; units from cuda_occupancy.h of the CUDA runtime. Devices: NVIDIA's data
# sheets; the H200's L2 as its driver reports it (seen), those of B200 and B300 as others have published them.
# AMD: the ISA documents of CDNA 2 to 4, and LLVM's AMDGPU back end (getTotalNumVGPRs, getMaxWavesPerEU,
# getVGPRAllocGranule): four SIMDs of 512 vector registers by 64 lanes, in eights; eight waves each. The driver reports
# half of those registers, and the L2 of one die.
_NVIDIA = (
    Device("sm_75", "Tesla T4", 40, 4 * MIB, 320e9, 1024, 16, 64 * KIB, 64 * KIB, shared_unit=256, shared_reserved=0),
    Device("sm_80", "NVIDIA A100 80 GB", 108, 40 * MIB, 2039e9, 2048, 32, 164 * KIB, 163 * KIB),
    Device("sm_86", "NVIDIA A10", 72, 6 * MIB, 600e9, 1536, 16, 100 * KIB, 99 * KIB),
    Device("sm_87", "NVIDIA Jetson AGX Orin 64 GB", 16, 4 * MIB, 204.8e9, 1536, 16, 164 * KIB, 163 * KIB),
    Device("sm_89", "NVIDIA L40S", 142, 96 * MIB, 864e9, 1536, 24, 100 * KIB, 99 * KIB),
    Device("sm_90", "NVIDIA H200", 132, 60 * MIB, 4.8e12, 2048, 32, 228 * KIB, 227 * KIB),
    Device("sm_100", "NVIDIA B200", 148, 132644864, 8e12, 2048, 32, 228 * KIB, 227 * KIB),
    Device("sm_103", "NVIDIA B300", 148, 132644864, 8e12, 2048, 32, 228 * KIB, 227 * KIB),
    Device("sm_120", "NVIDIA GeForce RTX 5090", 170, 96 * MIB, 1792e9, 1536, 24, 100 * KIB, 99 * KIB),
)
_CDNA = {"registers": 131072, "register_unit": 512, "shared_unit": 512, "shared_reserved": 0, "warp_size": 64}
_CDNA_4 = {**_CDNA, "shared_unit": 1280}
_AMD = (
    Device("gfx90a", "AMD Instinct MI250X, one die", 110, 8 * MIB, 1638e9, 2048, 32, 64 * KIB, 64 * KIB, **_CDNA),
    Device("gfx942", "AMD Instinct MI300X", 304, 4 * MIB, 5.3e12, 2048, 32, 64 * KIB, 64 * KIB, **_CDNA),
    Device("gfx950", "AMD Instinct MI350X", 256, 4 * MIB, 8e12, 2048, 32, 160 * KIB, 160 * KIB, **_CDNA_4),
)
ARCHITECTURES = {device.arch: device for device in (*_NVIDIA, *_AMD)}
"""A device of each architecture that kernels can be compiled for."""

_PARTITIONS = 4
"""Parts of a multiprocessor that own a quarter of its registers each, on every architecture above."""


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel one multiprocessor holds at once."""

    blocks: int
    fraction: float
    """Of the threads that it may hold."""
    limited_by: tuple[str, ...]
    """What stands in the way of one block more: ``threads``, ``blocks``, ``registers``, ``shared memory``."""


def occupancy(device: Device, registers: int, threads: int, shared_bytes: int) -> Occupancy:
    """Occupancy of a kernel with so many registers a thread, threads a block, and bytes of shared memory a block.

    NVIDIA's own rule (cuda_occupancy.h), which is the driver's; 0 blocks if a single one is too much. Clusters and
    cooperative launches may leave fewer.
    """
    warps = -(-threads // device.warp_size)
    warp_registers = _round_up(max(1, registers) * device.warp_size, device.register_unit)
    limits = {
        "threads": device.threads // (warps * device.warp_size),
        "blocks": device.blocks,
        "registers": device.registers // _PARTITIONS // warp_registers * _PARTITIONS // warps,
    }
    taken = _round_up(shared_bytes + device.shared_reserved, device.shared_unit)
    if taken:
        limits["shared memory"] = device.shared_bytes // taken if shared_bytes <= device.shared_per_block else 0
    blocks = min(limits.values())
    limited_by = tuple(what for what, limit in limits.items() if limit == blocks)
    return Occupancy(blocks, blocks * warps * device.warp_size / device.threads, limited_by)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


# --- The device of a bind -------------------------------------------------------------------------------------------

_assumed: ContextVar[Device | None] = ContextVar("assumed", default=None)


@contextmanager
def assumed(device: Device) -> Iterator[None]:
    """Within the context, what this thread binds is bound for that device."""
    token = _assumed.set(device)
    try:
        yield
    finally:
        _assumed.reset(token)


def of(x: torch.Tensor) -> Device:
    """The device that a kernel on x would run on: the assumed one, or x's own. x must be on a GPU for the latter."""
    return _assumed.get() or here(x.get_device())


def current() -> Device:
    """The assumed device, or the current one of this thread."""
    import torch

    return _assumed.get() or here(torch.cuda.current_device())


@cache
def here(index: int) -> Device:
    """The GPU of that index, as torch reports it; what torch doesn't tell is taken from its architecture."""
    import torch

    p: Any = torch.cuda.get_device_properties(index)
    arch = p.gcnArchName.partition(":")[0] if torch.version.hip else f"sm_{p.major}{p.minor}"
    like = ARCHITECTURES.get(arch) or ARCHITECTURES["gfx942" if torch.version.hip else "sm_90"]
    return replace(
        like,
        arch=arch,
        name=p.name,
        multiprocessors=p.multi_processor_count,
        l2_bytes=p.L2_cache_size,
        bandwidth=0.0,
        threads=p.max_threads_per_multi_processor,
        shared_bytes=p.shared_memory_per_multiprocessor,
        shared_per_block=p.shared_memory_per_block_optin or p.shared_memory_per_block,
        registers_per_block=p.regs_per_multiprocessor,
        warp_size=p.warp_size,
        index=index,
    )


def on_device_of(x: torch.Tensor) -> AbstractContextManager[object]:
    """A context in which x's device is the current one: what a launch needs, as torch's own operations do it."""
    import torch

    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


@contextmanager
def attached(index: int) -> Iterator[None]:
    """A context in which that GPU is the current one to the driver too, which a thread that has not used any has none
    of: what calls the driver itself needs that, whatever torch's idea of the current device is."""
    import torch

    before = torch.cuda.current_device()
    torch.cuda.set_device(index)
    try:
        yield
    finally:
        if before != index:
            torch.cuda.set_device(before)


@contextmanager
def current_kept() -> Iterator[None]:
    """A context after which the GPU that was torch's current one is so again, whatever a library did meanwhile."""
    import torch

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield
        return
    before = torch.cuda.current_device()
    try:
        yield
    finally:
        if torch.cuda.current_device() != before:
            torch.cuda.set_device(before)


def on_its_device(launch: Launch, x: torch.Tensor) -> Launch:
    """The launch with x's device made current for its time, where there are several."""
    if not x.is_cuda:
        return launch
    import torch

    if torch.cuda.device_count() == 1:
        return launch

    def there() -> None:
        with on_device_of(x):
            launch()

    return there


def device_lives(device: torch.device, id: str, reason: str) -> None:
    """After an unexpected error: raise DeviceLostError if the device answers this process no more."""
    if device.type != "cuda":
        return
    import torch

    try:
        torch.cuda.synchronize(device)
        torch.zeros(1, device=device).add_(1).item()
    except RuntimeError as error:
        raise DeviceLostError(id, f"{reason}; then {error}") from error
