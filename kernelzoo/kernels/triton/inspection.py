"""Compilation by Triton for a device that is described, not present; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Return "": Triton can compile every variant for all listed architectures."""
    return ""
