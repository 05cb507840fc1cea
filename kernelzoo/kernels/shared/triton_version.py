"""Which versions of Triton are taken, by all that is compiled with it. Triton itself is not imported."""

from kernelzoo.packages import requirement, unfit


def too_old(version: str) -> str:
    """Why a version of Triton can't be used, or "": its interpreter, driver or compiled kernels may lack something."""
    return unfit("triton", version, "triton")


def newer() -> str:
    """How to install one that can."""
    return f"install a newer one with: pip install '{requirement('triton', 'triton')}'"
