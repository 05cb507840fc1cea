"""The architectures for which CUDA C++ kernels can be compiled without a device; see compiler.py."""

from kernelzoo.kernels.shared.absent import allowed_from
from kernelzoo.kernels.shared.absent import target as target


def refusal(variant: str, arch: str) -> str:
    """Return why kernels can't be compiled for an architecture, as words that follow an id, or "" if they can."""
    return allowed_from((8, 0), arch, f"is CUDA C++, which is not for {arch}")  # the limit of the backend's ``probe``
