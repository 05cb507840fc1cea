"""Triton: kernels in ``@triton.jit`` for NVIDIA and AMD GPUs, and for the CPU in Triton's interpreter."""

from pathlib import Path

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache, triton_needs
from kernelzoo.kernels.shared.triton_version import newer
from kernelzoo.kernels.shared.triton_version import too_old as too_old
from kernelzoo.registry import require

COMPILES_WITH = {"TRITON_INTERPRET": "0"}
"""The environment of a process that compiles kernels and runs none: an interpreter compiles nothing."""


def probe() -> tuple[str, ...]:
    """Device types this backend takes here: cuda (ROCm too), and cpu under the interpreter.

    Raises BackendUnavailableError.
    """
    torch = require("triton", "torch", "install it with: pip install torch")
    triton = require("triton", "triton", "install it with: pip install 'kernelzoo[triton]' (Linux only)")
    if why := too_old(triton.__version__):
        raise BackendUnavailableError("triton", why, newer())
    devices = ("cuda",) if torch.cuda.is_available() else ()
    if devices:
        code_cache.for_language("TRITON_CACHE_DIR", Path(triton.knobs.cache.get_triton_dir("cache")))
        if not triton.knobs.runtime.interpret and (missing := triton_needs.lacking(triton)):
            raise BackendUnavailableError("triton", *missing)
    if triton.knobs.runtime.interpret:
        return (*devices, "cpu")
    if not devices:
        raise BackendUnavailableError(
            "triton",
            "torch sees no GPU",
            "use kernelzoo.get('cpu'), or set TRITON_INTERPRET=1 before Triton is imported to run the kernels in its "
            "interpreter (for checking, never for timing)",
        )
    return devices


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    triton = require("triton", "triton", "")
    return "Triton's interpreter" if triton.knobs.runtime.interpret else ""
