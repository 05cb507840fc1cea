"""The architectures for which CUDA C++ kernels can be compiled without a device; see compiler.py."""

from kernelzoo.kernels.shared.absent import explain_refusal_below
from kernelzoo.kernels.shared.absent import target as target


def refusal(variant: str, arch: str) -> str:
    """Return why kernels can't be compiled for an architecture, as text that follows a variant's id, or ""."""
    return explain_refusal_below((8, 0), arch, f"is CUDA C++, which is not for {arch}")  # the minimum of ``probe``, too
