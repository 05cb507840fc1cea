"""What the CUDA C++ kernels can be compiled for without a device; compiler.py does it."""

from kernelzoo.kernels.shared.absent import allowed_from
from kernelzoo.kernels.shared.absent import target as target


def refusal(variant: str, arch: str) -> str:
    """Why no kernel is compiled for that architecture, as words that follow the id; "" if they are."""
    return allowed_from((8, 0), arch, f"is CUDA C++, which is not for {arch}")  # as the backend's ``probe`` says
