"""The architectures for which CuTe's kernels can be compiled without a device; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.cute import LEAST_CAPABILITY, compiler
from kernelzoo.kernels.shared.absent import allowed_from
from kernelzoo.kernels.shared.absent import target as target

if _why := compiler.lacking():
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask


def refusal(variant: str, arch: str) -> str:
    """Return why kernels can't be compiled for an architecture, as words that follow an id, or "" if they can."""
    least = (9, 0) if variant == "split_cluster" else LEAST_CAPABILITY
    return allowed_from(least, arch, f"is not compiled for {arch}")
