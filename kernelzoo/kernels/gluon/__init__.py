"""Gluon: Triton's language with its layouts in the open, ``@gluon.jit`` for NVIDIA GPUs; it comes with Triton."""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only, triton_needs
from kernelzoo.kernels.shared.triton_needs import COMPILES_WITH as COMPILES_WITH
from kernelzoo.registry import require

LEAST_CAPABILITY = (8, 0)
"""Asynchronous copies and a minimum that keeps NaN are instructions from here on."""

stand_in: Any = None
"""What runs the kernels in place of a device, by name: the one place where the tests' emulator comes in."""


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    return "" if stand_in is None else str(stand_in)


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    if stand_in is not None:
        return ("cpu",)
    torch = require("gluon", "torch", "install it with: pip install torch")
    triton = require("gluon", "triton", "install it with: pip install 'kernelzoo[gluon]' (Linux only)")

    triton_needs.check_version("gluon", triton)
    if triton.knobs.runtime.interpret:
        raise BackendUnavailableError(
            "gluon", "Triton's interpreter is on, and Gluon has none", "unset TRITON_INTERPRET"
        )
    nvidia_only.check("gluon", torch, LEAST_CAPABILITY)
    triton_needs.check_launches("gluon", triton)
    return ("cuda",)
