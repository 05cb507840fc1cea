"""The architectures for which CUDA C++ kernels can be compiled without a device; see compiler.py."""

from kernelzoo.kernels.shared.absent import refusal_below
from kernelzoo.kernels.shared.absent import target as target


def refusal(variant: str, arch: str) -> str:
    """Return "" if kernels can be compiled for an architecture. Otherwise return the reason, which follows an id."""
    return refusal_below((8, 0), arch, f"is CUDA C++, which is not for {arch}")  # the minimum of ``probe``, too
