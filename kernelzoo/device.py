"""The device that a kernel is bound for: physical or simulated.

``current()`` and ``of(x)`` return the physical device. Within ``plan_launches_for_device(device)`` they return that
simulated device. Launches are then planned as on it, and kernels are compiled for it without a GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from kernelzoo.errors import DeviceLostError, NoRoomError, UnsupportedProblemError
from kernelzoo.lazy import torch

KIB, MIB = 1024, 1024**2

T = TypeVar("T")


def make_host_memory_error(requester: str, bytes_needed: int) -> NoRoomError:
    """Return the error for a request of more bytes than are free on the host."""
    asked_for = f"{requester} asks for {bytes_needed / 1e9:.1f} GB of memory"
    return NoRoomError(f"{asked_for}, and {free_host_bytes() / 1e9:.1f} GB are free on the host")


def free_host_bytes() -> int:
    """Return the bytes of host memory that are free."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * KIB for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Device:
    """A device and its multiprocessors (SMs, or compute units).

    A register has 32 bits, and memory is in bytes. Fields after ``bandwidth`` are limits of one multiprocessor.
    """

    arch: str
    """``sm_90``, or AMD's name of the architecture; "" in an interpreter or a simulator."""
    name: str
    multiprocessors: int
    l2_bytes: int
    """Size of the L2 cache, as the driver reports it."""
    bandwidth: float
    """Memory bandwidth of the data sheet in bytes per second, which no kernel reaches. 0 if unknown."""
    threads: int
    blocks: int
    shared_bytes: int
    shared_per_block: int
    """The most shared memory per block."""
    registers: int = 65536
    registers_per_block: int = 65536
    """Registers of a multiprocessor, as the driver reports them. On AMD the real number is twice that."""
    register_unit: int = 256
    """Registers are allocated to a warp in multiples of this, from a quarter of the multiprocessor's registers."""
    shared_unit: int = 128
    """Shared memory is allocated to a block in multiples of this."""
    shared_reserved: int = 1024
    """Shared memory that the system reserves in each block."""
    warp_size: int = 32
    index: int = -1
    """Index of a physical device; negative for a simulated one, which uses the shipped launch tables."""

    def __hash__(self) -> int:
        return hash((self.arch, self.name, self.index))  # nearly unique; plans are cached by device

    @property
    def vendor(self) -> str:
        """The platform: ``cuda``, ``hip``, or ``cpu`` for kernels on the host."""
        return "cuda" if self.is_nvidia else "hip" if self.arch else "cpu"

    @property
    def is_nvidia(self) -> bool:
        return self.arch.startswith("sm_")

    @property
    def capability(self) -> int:
        """The compute capability as one number: 90 for 9.0, and 0 if the device is not NVIDIA's."""
        return int(self.arch.removeprefix("sm_")) if self.is_nvidia else 0

    @property
    def allows_dependent_launches(self) -> bool:
        """Whether a launch may begin before the previous one ends, so that kernels must wait for that end."""
        return self.capability >= 90

    @property
    def cluster_blocks(self) -> int:
        """The most blocks per cluster: 16 (opt-in) on Hopper and data-centre Blackwell, 8 on later GPUs, else 1."""
        if self.capability < 90:
            return 1
        return 16 if self.capability // 10 in (9, 10) else 8

    @property
    def is_simulated(self) -> bool:
        """Whether the device is simulated: kernels can be compiled for it, but not run."""
        return self.index < 0

    def warps(self, threads: int) -> int:
        """Return the number of warps for that many threads: at least one, and at most that of 1024 threads."""
        return max(1, min(threads, 1024) // self.warp_size)

    def __str__(self) -> str:
        return f"{self.name}, {self.multiprocessors} multiprocessors, {self.l2_bytes / MIB:g} MiB of L2"


# NVIDIA: the technical specifications per compute capability in the CUDA C++ programming guide, as in
# cuda/__device/arch_traits.h of CCCL. Units: cuda_occupancy.h of the CUDA runtime. Devices: NVIDIA's data sheets. The
# H200's L2 is from its driver (seen), that of B200 and B300 from others' publications. AMD: the ISA documents of CDNA
# 2 to 4, and LLVM's AMDGPU back end (getTotalNumVGPRs, getMaxWavesPerEU, getVGPRAllocGranule). Four SIMDs have 512
# vector registers by 64 lanes, in eights, and eight waves each. The driver reports half of the registers, and the L2
# of one die.
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
"""One device for each architecture that kernels can be compiled for."""

_PARTITIONS = 4
"""Partitions of a multiprocessor, each with a quarter of its registers, on all these architectures."""


@dataclass(frozen=True)
class Occupancy:
    """The number of blocks of a kernel that can be resident on one multiprocessor, and what limits it."""

    blocks: int
    fraction: float
    """Fraction of the multiprocessor's threads in use."""
    limited_by: tuple[str, ...]
    """The limits that prevent one more block: ``threads``, ``blocks``, ``registers``, ``shared memory``."""


def occupancy(device: Device, registers: int, threads: int, shared_bytes: int) -> Occupancy:
    """Return a kernel's occupancy, from registers per thread, threads per block, and bytes of shared memory per block.

    This is NVIDIA's rule (cuda_occupancy.h), as in the driver. It gives 0 blocks if not even one fits. Clusters and
    cooperative launches may allow fewer.
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
def hold_value(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """A context in which a context variable has the value, which it yields."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def plan_launches_for_device(device: Device) -> AbstractContextManager[Any]:
    """A context in which this thread plans launches of kernels for the given device, physical or simulated."""
    return hold_value(_assumed, device)


def of(x: torch.Tensor) -> Device:
    """Return the device for a kernel on x: that of ``plan_launches_for_device`` if active, else x's GPU."""
    return _assumed.get() or describe_gpu(x.get_device())


def current() -> Device:
    """Return the device of ``plan_launches_for_device`` if its context is active, else this thread's current GPU."""
    return _assumed.get() or describe_gpu(torch.cuda.current_device())


@cache
def describe_gpu(index: int) -> Device:
    """Return the GPU of that index. What torch does not report comes from ``ARCHITECTURES``, by architecture."""
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


def is_on_usable_device(x: torch.Tensor, types: Sequence[str]) -> bool:
    """Whether a tensor is on a device of these types, and its GPU did not become unusable in a fork."""
    return x.device.type in types and (not x.is_cuda or _cuda_user in (0, os.getpid()))


_cuda_user = 0
"""The id of the process that had started CUDA at the last fork; 0 if none."""


def _remember_cuda_process() -> None:
    global _cuda_user
    loaded: Any = sys.modules.get("torch")
    _cuda_user = os.getpid() if loaded is not None and loaded.cuda.is_initialized() else 0


os.register_at_fork(before=_remember_cuda_process)


def on_device_of(x: torch.Tensor) -> AbstractContextManager[object]:
    """Return a context in which x's device is current, as a launch needs it."""
    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


@contextmanager
def make_gpu_current(index: int) -> Iterator[None]:
    """A context in which a GPU is the driver's current one, for direct driver calls from any thread."""
    before = torch.cuda.current_device()
    torch.cuda.set_device(index)
    try:
        yield
    finally:
        if before != index:
            torch.cuda.set_device(before)


@contextmanager
def keep_current_gpu() -> Iterator[None]:
    """A context that restores torch's current GPU at its end, whatever a library did."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield
        return
    before = torch.cuda.current_device()
    try:
        yield
    finally:
        if torch.cuda.current_device() != before:
            torch.cuda.set_device(before)


def wrap_with_device(launch: Callable[[], None], x: torch.Tensor) -> Callable[[], None]:
    """Return the launch, wrapped to make x's device current if there are several devices."""
    if not x.is_cuda:
        return launch
    if torch.cuda.device_count() == 1:
        return launch

    def launch_on_device() -> None:
        with on_device_of(x):
            launch()

    return launch_on_device


def raise_if_device_lost(device: torch.device, implementation_id: str, error_text: str) -> None:
    """Raise DeviceLostError if, after an unexpected error, the device no longer responds to this process."""
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
        torch.zeros(1, device=device).add_(1).item()
    except RuntimeError as error:
        raise DeviceLostError(implementation_id, f"{error_text}; then {error}") from error


# --- Batch invariance -----------------------------------------------------------------------------------------------

_invariant: ContextVar[count[int] | None] = ContextVar("invariant", default=None)


@contextmanager
def require_batch_invariance(implementation_id: str) -> Iterator[None]:
    """A context to prepare launches whose result for a row has the same bits for any number of rows.
    Raises UnsupportedProblemError at its end if nothing within it called ``is_batch_invariant``."""
    with hold_value(_invariant, count()) as asked:
        yield
    if next(asked) == 0:
        reason = "it doesn't promise that a row's bits are the same among any number of rows"
        raise UnsupportedProblemError(implementation_id, reason, "call it without batch_invariant, or another backend")


def is_batch_invariant() -> bool:
    """Whether :func:`require_batch_invariance` is active. A variant that calls this promises what that demands."""
    return (asked := _invariant.get()) is not None and next(asked) >= 0
