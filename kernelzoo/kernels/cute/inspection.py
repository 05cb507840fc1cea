"""The architectures for which CuTe's kernels can be compiled without a device; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.cute import LEAST_CAPABILITY, compiler
from kernelzoo.kernels.shared.absent import explain_refusal_below
from kernelzoo.kernels.shared.absent import target as target

if _why := compiler.missing_requirement():
    raise ImportError(_why)  # as if CuTe were not installed; see kernelzoo.inspect.ask_child


def refusal(variant: str, arch: str) -> str:
    """Return "" if kernels can be compiled for an architecture, else why not: words that follow a kernel's id."""
    least = (9, 0) if variant == "split_cluster" else LEAST_CAPABILITY
    return explain_refusal_below(least, arch, f"is not compiled for {arch}")
