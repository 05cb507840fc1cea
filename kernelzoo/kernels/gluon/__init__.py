"""Gluon: Triton's language with its layouts in the open, ``@gluon.jit`` for NVIDIA GPUs; it comes with Triton."""

from pathlib import Path
from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache, triton_needs
from kernelzoo.kernels.shared.triton_version import newer, too_old
from kernelzoo.registry import require

COMPILES_WITH = {"TRITON_INTERPRET": "0"}
"""The environment of a process that compiles kernels and runs none: an interpreter compiles nothing."""

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

    def unavailable(reason: str, remedy: str) -> BackendUnavailableError:
        return BackendUnavailableError("gluon", reason, remedy)

    if why := too_old(triton.__version__):
        raise unavailable(why, newer())
    if triton.knobs.runtime.interpret:
        raise unavailable("Triton's interpreter is on, and Gluon has none", "unset TRITON_INTERPRET")
    if torch.version.hip is not None:
        raise unavailable(
            "its kernels are laid out for NVIDIA's warps, and this is ROCm", "use kernelzoo.get('triton')"
        )
    if not torch.cuda.is_available():
        raise unavailable(
            "torch sees no CUDA device",
            "it needs an NVIDIA GPU, its driver (check nvidia-smi) and a torch built for CUDA",
        )
    # Not min(): once this package's folder of that name is imported, that is what the name means here.
    oldest = sorted(torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count()))[0]
    if oldest < LEAST_CAPABILITY:
        raise unavailable(
            f"its kernels need compute capability 8.0, and a device here has {oldest[0]}.{oldest[1]}",
            "hide that device with CUDA_VISIBLE_DEVICES, or use kernelzoo.get('triton')",
        )
    code_cache.for_language("TRITON_CACHE_DIR", Path(triton.knobs.cache.get_triton_dir("cache")))
    if missing := triton_needs.lacking(triton):
        raise unavailable(*missing)
    return ("cuda",)
