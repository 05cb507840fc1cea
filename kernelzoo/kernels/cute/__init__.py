"""NVIDIA's CuTe DSL (the package nvidia-cutlass-dsl): kernels of threads, over layouts of memory, on NVIDIA GPUs.

Its compiler needs no device: kernels are compiled ahead of their first launch, and kept on disk. The package's licence
is proprietary.
"""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require

LEAST_CAPABILITY = (8, 0)
"""Of a device: no kernel here is tried on an older one."""

stand_in: Any = None
"""What runs the kernels in place of a device: the one place where the tests' emulator comes in."""


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    return "" if stand_in is None else str(stand_in)


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    torch = require("cute", "torch", "install it with: pip install torch")
    install = how_to_install("cute")
    require("cute", "cutlass.cute", install)
    if stand_in is not None:
        return ("cpu",)
    compiler = require("cute", "kernelzoo.kernels.cute.compiler", install)

    if why := compiler.lacking():
        raise BackendUnavailableError("cute", why, install)
    nvidia_only.check("cute", torch, LEAST_CAPABILITY)
    return ("cuda",)
