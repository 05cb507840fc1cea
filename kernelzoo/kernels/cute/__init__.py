"""NVIDIA's CuTe DSL (package nvidia-cutlass-dsl), for its GPUs: kernels written per thread, with memory layouts.

Its compiler needs no device. Kernels are compiled before a launch, and cached on disk. Its licence is proprietary."""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require

LEAST_CAPABILITY = (8, 0)
"""The lowest compute capability supported: on older devices, no kernel here is tested."""

stand_in: Any = None
"""The tests' emulator, which runs the kernels in place of a device, or None."""


def emulator() -> str:
    """Return the name of the emulator that runs the kernels in place of a device, or ""."""
    return "" if stand_in is None else str(stand_in)


def probe() -> tuple[str, ...]:
    """Return the device types that this backend runs on here. Raises BackendUnavailableError."""
    torch = require("cute", "torch", "install it with: pip install torch")
    install = how_to_install("cute")
    require("cute", "cutlass.cute", install)
    if stand_in is not None:
        return ("cpu",)
    compiler = require("cute", "kernelzoo.kernels.cute.compiler", install)

    if why := compiler.missing_requirement():
        raise BackendUnavailableError("cute", why, install)
    nvidia_only.check_devices("cute", torch, LEAST_CAPABILITY)
    return ("cuda",)
