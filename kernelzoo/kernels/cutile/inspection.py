"""Architectures that cuTile's kernels can be compiled for without a device; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.cutile import LEAST_CAPABILITY, compiler
from kernelzoo.kernels.shared.absent import explain_refusal_below
from kernelzoo.kernels.shared.absent import target as target

if _why := compiler.why_cannot_compile():
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask_child


def refusal(variant: str, arch: str) -> str:
    """Return "" if kernels can be compiled for an architecture, else why not: words that follow a kernel's id."""
    return explain_refusal_below(LEAST_CAPABILITY, arch, f"is not compiled for {arch}")
