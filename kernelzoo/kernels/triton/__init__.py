"""Triton: kernels in ``@triton.jit`` for NVIDIA and AMD GPUs, and for the CPU in Triton's interpreter."""

from kernelzoo.kernels.shared import triton_needs
from kernelzoo.kernels.shared.triton_needs import COMPILES_WITH as COMPILES_WITH
from kernelzoo.kernels.shared.triton_needs import why_too_old as why_too_old
from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Return the device types that this backend can use here: cuda (ROCm too), and cpu in Triton's interpreter.

    Raises BackendUnavailableError if there are none.
    """
    torch = require("triton", "torch", "install it with: pip install torch")
    triton = require("triton", "triton", "install it with: pip install 'kernelzoo[triton]' (Linux only)")
    triton_needs.check_version("triton", triton)
    return triton_needs.find_device_types("triton", torch, triton)


def emulator() -> str:
    """Return the name of the emulator that runs the kernels instead of a GPU, or ""."""
    triton = require("triton", "triton", "")
    return "Triton's interpreter" if triton.knobs.runtime.interpret else ""
