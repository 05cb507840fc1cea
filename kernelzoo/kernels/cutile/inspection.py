"""What cuTile's kernels can be compiled for, without a device; see :mod:`kernelzoo.inspect`."""

from contextlib import AbstractContextManager, nullcontext

from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.cutile import LEAST_CAPABILITY, compiler

if _why := compiler.lacking():
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask


def refusal(variant: str, arch: str) -> str:
    """Why no kernel is compiled for that architecture, as words that follow the id; "" if they are."""
    least = 10 * LEAST_CAPABILITY[0] + LEAST_CAPABILITY[1]
    allowed = [name for name, device in ARCHITECTURES.items() if device.capability >= least]
    return "" if arch in allowed else f"is not compiled for {arch}; allowed: {', '.join(allowed)}"


def target(device: Device) -> AbstractContextManager[object]:
    """Within the context, kernels are compiled for that device: they ask what is assumed by themselves."""
    return nullcontext()
