"""Helion: torch's tile language, whose compiler makes Triton's source of a kernel, for NVIDIA and AMD GPUs.

What it makes is compiled, kept and launched as Triton's own kernels are, and runs in Triton's interpreter too.
"""

from kernelzoo.kernels.shared import triton_needs
from kernelzoo.kernels.shared.triton_needs import COMPILES_WITH as COMPILES_WITH
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Device types this backend takes here: cuda (ROCm too), and cpu under Triton's interpreter.

    Raises BackendUnavailableError.
    """
    torch = require("helion", "torch", "install it with: pip install torch")
    install = how_to_install("helion")
    triton = require("helion", "triton", install)
    triton_needs.check_version("helion", triton)
    require("helion", "helion", f"{install}; with a torch before 2.13 take helion 1.5.0")
    return triton_needs.devices("helion", torch, triton)


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    triton = require("helion", "triton", "")
    return "Triton's interpreter" if triton.knobs.runtime.interpret else ""
