"""Helion: torch's tile language, which compiles kernels to Triton source, for NVIDIA and AMD GPUs.

The source is compiled, cached and launched like the triton backend's kernels, also in Triton's interpreter.
"""

from kernelzoo.kernels.shared import triton_needs
from kernelzoo.kernels.shared.triton_needs import COMPILES_WITH as COMPILES_WITH
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Return the device types that the backend runs on here: cuda (ROCm too), and cpu under Triton's interpreter.

    Raises BackendUnavailableError.
    """
    torch = require("helion", "torch", "install it with: pip install torch")
    install = how_to_install("helion")
    triton = require("helion", "triton", install)
    triton_needs.check_version("helion", triton)
    require("helion", "helion", f"{install}; with a torch before 2.13 take helion 1.5.0")
    return triton_needs.find_device_types("helion", torch, triton)


def emulator() -> str:
    """Return the name of the emulator that runs the kernels instead of a GPU, or ""."""
    triton = require("helion", "triton", "")
    return "Triton's interpreter" if triton.knobs.runtime.interpret else ""
