"""Architectures that cuTile's kernels can be compiled for without a device; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.cutile import LEAST_CAPABILITY, compiler
from kernelzoo.kernels.shared.absent import refusal_below
from kernelzoo.kernels.shared.absent import target as target

if _why := compiler.why_cannot_compile():
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask_child


def refusal(variant: str, arch: str) -> str:
    """Return why no kernel can be compiled for an architecture, as a clause that follows the id, or ""."""
    return refusal_below(LEAST_CAPABILITY, arch, f"is not compiled for {arch}")
