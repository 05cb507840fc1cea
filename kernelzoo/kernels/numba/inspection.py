"""Architectures that Numba's CUDA kernels can be compiled for without a device."""

from kernelzoo.kernels.shared.absent import explain_refusal_below
from kernelzoo.kernels.shared.absent import target as target


def refusal(variant: str, arch: str) -> str:
    """Return why kernels can't be compiled for an architecture, as text that follows a variant's id, or ""."""
    return explain_refusal_below((8, 0), arch, f"is Numba CUDA, which is not for {arch}")  # as ``probe`` says
