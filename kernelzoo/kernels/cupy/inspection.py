"""What the CUDA C++ kernels can be compiled for without a device; compiler.py does it."""

from contextlib import AbstractContextManager, nullcontext

from kernelzoo.device import ARCHITECTURES, Device

LEAST_CAPABILITY = 80  # the kernels use instructions of sm_80, and the backend's ``probe`` asks for them


def refusal(variant: str, arch: str) -> str:
    """Why no kernel is compiled for that architecture, as words that follow the id; "" if they are."""
    allowed = [name for name, device in ARCHITECTURES.items() if device.capability >= LEAST_CAPABILITY]
    return "" if arch in allowed else f"is CUDA C++, which is not for {arch}; allowed: {', '.join(allowed)}"


def target(device: Device) -> AbstractContextManager[object]:
    """A context in which kernels compile for a described device: nothing has to be set up."""
    return nullcontext()
