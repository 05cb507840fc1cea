"""Compilation by Gluon for a device that is described, not present; see :mod:`kernelzoo.inspect`."""

from kernelzoo.kernels.gluon import LEAST_CAPABILITY
from kernelzoo.kernels.shared.absent import explain_refusal_below
from kernelzoo.kernels.shared.described import target as target


def refusal(variant: str, arch: str) -> str:
    """Return why kernels can't be compiled for an architecture, or "". An error message has it after a kernel's id."""
    return explain_refusal_below(LEAST_CAPABILITY, arch, f"is laid out for warps that {arch} has not")
