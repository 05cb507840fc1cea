"""Gluon: Triton's language with explicit layouts, ``@gluon.jit`` for NVIDIA GPUs. It comes with Triton."""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only, triton_needs
from kernelzoo.kernels.shared.triton_needs import COMPILES_WITH as COMPILES_WITH
from kernelzoo.registry import require

LEAST_CAPABILITY = (8, 0)
"""The lowest compute capability with instructions for asynchronous copies and for a minimum that propagates NaN."""

stand_in: Any = None
"""The emulator that runs the kernels instead of a GPU, or None. Only the tests set it."""


def emulator() -> str:
    """Return the name of the emulator that runs the kernels instead of a GPU, or ""."""
    return "" if stand_in is None else str(stand_in)


def probe() -> tuple[str, ...]:
    """Return the device types that this backend can use here. Raises BackendUnavailableError if there are none."""
    if stand_in is not None:
        return ("cpu",)
    torch = require("gluon", "torch", "install it with: pip install torch")
    triton = require("gluon", "triton", "install it with: pip install 'kernelzoo[gluon]' (Linux only)")

    triton_needs.check_version("gluon", triton)
    if triton.knobs.runtime.interpret:
        raise BackendUnavailableError(
            "gluon", "Triton's interpreter is on, and Gluon has none", "unset TRITON_INTERPRET"
        )
    nvidia_only.check_devices("gluon", torch, LEAST_CAPABILITY)
    triton_needs.check_launches("gluon", triton)
    return ("cuda",)
