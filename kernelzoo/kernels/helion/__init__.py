"""Helion: torch's tile language, whose compiler makes Triton's source of a kernel, for NVIDIA and AMD GPUs.

What it makes is compiled, kept and launched as Triton's own kernels are, and runs in Triton's interpreter too.
"""

from pathlib import Path

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache, triton_needs
from kernelzoo.kernels.shared.triton_version import newer, too_old
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require

COMPILES_WITH = {"TRITON_INTERPRET": "0"}
"""The environment of a process that compiles kernels and runs none: an interpreter compiles nothing."""


def probe() -> tuple[str, ...]:
    """Device types this backend takes here: cuda (ROCm too), and cpu under Triton's interpreter.

    Raises BackendUnavailableError.
    """
    torch = require("helion", "torch", "install it with: pip install torch")
    install = how_to_install("helion")
    triton = require("helion", "triton", install)
    if why := too_old(triton.__version__):
        raise BackendUnavailableError("helion", why, newer())
    require("helion", "helion", f"{install}; with a torch before 2.13 take helion 1.5.0")
    devices = ("cuda",) if torch.cuda.is_available() else ()
    if devices:
        code_cache.for_language("TRITON_CACHE_DIR", Path(triton.knobs.cache.get_triton_dir("cache")))
        if not triton.knobs.runtime.interpret and (missing := triton_needs.lacking(triton)):
            raise BackendUnavailableError("helion", *missing)
    if triton.knobs.runtime.interpret:
        return (*devices, "cpu")
    if not devices:
        raise BackendUnavailableError(
            "helion",
            "torch sees no GPU",
            "use kernelzoo.get('cpu'), or set TRITON_INTERPRET=1 before Triton is imported to run the kernels in its "
            "interpreter (for checking, never for timing)",
        )
    return devices


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    triton = require("helion", "triton", "")
    return "Triton's interpreter" if triton.knobs.runtime.interpret else ""
