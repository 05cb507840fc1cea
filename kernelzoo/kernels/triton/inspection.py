"""Compilation by Triton for a device that is described, not present; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Return why a variant can't be compiled for an architecture: always "", since Triton compiles for all listed."""
    return ""
