"""What Helion's kernels are compiled for where no device is; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Why a variant can't be compiled for an architecture, or "": Triton's source is for all that are listed."""
    return ""
