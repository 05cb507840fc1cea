"""What Triton compiles for a device that is described and not there; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Why a variant can't be compiled for an architecture, or "": Triton's kernels are for all that are listed."""
    return ""
