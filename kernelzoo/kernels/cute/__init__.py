"""NVIDIA's CuTe DSL (the package nvidia-cutlass-dsl): kernels of threads, over layouts of memory, on NVIDIA GPUs.

Its compiler needs no device: kernels are compiled ahead of their first launch, and kept on disk. The package's licence
is proprietary.
"""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
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

    def unavailable(reason: str, remedy: str) -> BackendUnavailableError:
        return BackendUnavailableError("cute", reason, remedy)

    if why := compiler.lacking():
        raise unavailable(why, install)
    if torch.version.hip is not None:
        raise unavailable("CuTe compiles for NVIDIA's devices, and this is ROCm", "use kernelzoo.get('triton')")
    if not torch.cuda.is_available():
        raise unavailable(
            "torch sees no CUDA device",
            "it needs an NVIDIA GPU, its driver (check nvidia-smi) and a torch built for CUDA",
        )
    # Not min(): once this package's folder of that name is imported, that is what the name means here.
    oldest = sorted(torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count()))[0]
    if oldest < LEAST_CAPABILITY:
        raise unavailable(
            f"its kernels are compiled for compute capability 8.0 on, and a device here has {oldest[0]}.{oldest[1]}",
            "hide that device with CUDA_VISIBLE_DEVICES, or use kernelzoo.get('triton')",
        )
    return ("cuda",)
