"""What Gluon compiles for a device that is described and not there; see :mod:`kernelzoo.inspect`."""

from kernelzoo.device import ARCHITECTURES
from kernelzoo.kernels.gluon import LEAST_CAPABILITY
from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Why no kernel is compiled for that architecture, as words that follow the id; "" if they are."""
    least = 10 * LEAST_CAPABILITY[0] + LEAST_CAPABILITY[1]
    allowed = [name for name, device in ARCHITECTURES.items() if device.capability >= least]
    return "" if arch in allowed else f"is laid out for warps that {arch} has not; allowed: {', '.join(allowed)}"
