"""Architectures that Numba's CUDA kernels can be compiled for without a device."""

from kernelzoo.kernels.shared.absent import refusal_below
from kernelzoo.kernels.shared.absent import target as target


def refusal(variant: str, arch: str) -> str:
    """Return why a variant's kernels can't be compiled for an architecture, in words that follow its id, or ""."""
    return refusal_below((8, 0), arch, f"is Numba CUDA, which is not for {arch}")  # as the backend's ``probe`` says
