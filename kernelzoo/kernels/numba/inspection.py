"""What Numba's CUDA kernels can be compiled for, without a device."""

from contextlib import AbstractContextManager, nullcontext

from kernelzoo.device import ARCHITECTURES, Device

LEAST_CAPABILITY = 80
"""Halves two at once and a minimum that keeps NaN are sm_80's, and the backend's ``probe`` asks for it."""


def refusal(variant: str, arch: str) -> str:
    """Why a variant's kernels can't be compiled for an architecture, in words that follow its id; or ""."""
    allowed = [name for name, device in ARCHITECTURES.items() if device.capability >= LEAST_CAPABILITY]
    return "" if arch in allowed else f"is Numba CUDA, which is not for {arch}; allowed: {', '.join(allowed)}"


def target(device: Device) -> AbstractContextManager[object]:
    """Within the context, kernels are compiled for that device: they ask what is assumed by themselves."""
    return nullcontext()
