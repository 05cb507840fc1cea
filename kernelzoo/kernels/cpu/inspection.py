"""The host's kernels are compiled for this processor, whatever architecture is asked for."""

from contextlib import AbstractContextManager

from kernelzoo.device import Device
from kernelzoo.kernels.cpu.launch import compiling_without_cache

INPUT_DEVICE = "cpu"
"""The device of the inputs. Numba compiles for actual arrays, so the inputs need memory."""


def refusal(variant: str, arch: str) -> str:
    """Return "": nothing is refused."""
    return ""


def target(device: Device) -> AbstractContextManager[None]:
    """Return a context in which kernels are compiled anew: cached code has no assembly to show."""
    return compiling_without_cache()
