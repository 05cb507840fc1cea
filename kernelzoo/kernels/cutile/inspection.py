"""Architectures that cuTile's kernels can be compiled for without a device; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.cutile import LEAST_CAPABILITY, compiler
from kernelzoo.kernels.shared.absent import allowed_from
from kernelzoo.kernels.shared.absent import target as target

if _why := compiler.lacking():
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask


def refusal(variant: str, arch: str) -> str:
    """Return why no kernel can be compiled for an architecture, as a clause that follows the id, or ""."""
    return allowed_from(LEAST_CAPABILITY, arch, f"is not compiled for {arch}")
