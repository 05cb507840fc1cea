"""How many programs of a compiled kernel one multiprocessor holds at once, which sizes a persistent grid."""

import functools
from dataclasses import dataclass

import triton

CDNA = ("gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
"""AMD parts whose vector registers are twice the reported number: the accumulation registers are usable as well."""


@dataclass(frozen=True)
class Device:
    """What a launch table or an occupancy asks of a device. Registers are 32 bits wide, memory is in bytes."""

    vendor: str
    """``"cuda"``, ``"hip"``, or ``"cpu"`` for the interpreter."""
    arch: str
    warp_size: int
    multiprocessors: int
    registers: int
    """Per multiprocessor, as the driver reports them."""
    shared_memory: int
    """Per multiprocessor, as far as one program may use it."""
    max_threads: int
    """Resident threads per multiprocessor; only the AMD rule asks."""
    index: int = -1
    """Its number, for the launch table in force on it; negative where there is none."""

    @property
    def waits(self) -> bool:
        """Whether a launch may be prepared while the one before it ends, and kernels wait for that end themselves."""
        return self.vendor == "cuda" and int(self.arch) >= 90

    def warps(self, threads: int) -> int:
        """Warps that hold so many threads: at least one, and at most the 1024 threads that a program may have."""
        return max(1, min(threads, 1024) // self.warp_size)


INTERPRETER = Device(
    vendor="cpu",
    arch="",
    warp_size=32,
    multiprocessors=2,  # few, so that a persistent program loops over several rows even of a small problem
    registers=65536,
    shared_memory=227 * 1024,
    max_threads=2048,
)


@functools.cache
def occupancy(device: Device, registers_per_thread: int, warps: int, shared_memory: int) -> int:
    """Programs that one multiprocessor of the device holds at once, never less than one.

    registers_per_thread, warps and shared_memory (bytes, 0 if none) are the compiled program's own. The rule is that
    of Triton's tutorial on the fused softmax (python/tutorials/02-fused-softmax.py).
    """
    registers_per_thread = max(1, registers_per_thread)
    if device.vendor == "hip":
        registers = device.registers * (2 if device.arch in CDNA else 1)
        waves = min(registers // device.warp_size // registers_per_thread, device.max_threads // device.warp_size)
        return max(1, waves // warps)
    programs = device.registers // (registers_per_thread * device.warp_size * warps)
    if shared_memory:
        programs = min(programs, device.shared_memory // shared_memory)
    return max(1, programs)


def current_device() -> Device:
    """The device that a kernel bound now would run on: the current one, or the interpreter."""
    if triton.knobs.runtime.interpret:
        return INTERPRETER
    return _device(triton.runtime.driver.active.get_current_device())


@functools.cache
def _device(index: int) -> Device:
    driver = triton.runtime.driver.active
    target = driver.get_current_target()
    properties = driver.utils.get_device_properties(index)
    return Device(
        vendor=target.backend,
        arch=str(target.arch).partition(":")[0],  # ROCm names its features after a colon
        warp_size=target.warp_size,
        multiprocessors=properties["multiprocessor_count"],
        registers=properties["max_num_regs"],
        shared_memory=properties["max_shared_mem"],
        max_threads=properties.get("max_threads_per_sm", 2048),
        index=index,
    )
