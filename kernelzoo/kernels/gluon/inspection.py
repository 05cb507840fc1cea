"""What Gluon compiles for a device that is described and not there; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.gluon import LEAST_CAPABILITY
from kernelzoo.kernels.shared.absent import allowed_from
from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Why no kernel is compiled for that architecture, as words that follow the id; "" if they are."""
    return allowed_from(LEAST_CAPABILITY, arch, f"is laid out for warps that {arch} has not")
