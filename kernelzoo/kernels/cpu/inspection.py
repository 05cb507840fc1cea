"""The host's kernels are compiled for this processor, whatever architecture is asked for."""

from contextlib import AbstractContextManager

from kernelzoo.device import Device
from kernelzoo.kernels.cpu.launch import nothing_kept

INPUT_DEVICE = "cpu"
"""Kernels are compiled for the arrays that they are given, so tensors have memory."""


def refusal(variant: str, arch: str) -> str:
    """Nothing is refused."""
    return ""


def target(device: Device) -> AbstractContextManager[None]:
    """A context in which kernels are compiled anew: code out of the cache has no assembly to show."""
    return nothing_kept()
