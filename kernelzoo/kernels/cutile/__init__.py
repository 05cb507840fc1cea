"""cuTile Python (the package cuda-tile): kernels that compute on tiles of arrays, on NVIDIA GPUs.

Its compiler, tileiras, needs no GPU. Kernels are compiled before their first launch, and cached on disk."""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require

LEAST_CAPABILITY = (8, 0)
"""The lowest compute capability that tileiras compiles for."""

LEAST_DRIVER = 13000
"""The lowest CUDA driver version that loads what tileiras compiles, in the driver's own numbering."""

stand_in: Any = None
"""The emulator that runs the kernels instead of a GPU. Only tests set it."""


def emulator() -> str:
    """Return the name of the emulator that runs the kernels instead of a GPU, or ""."""
    return "" if stand_in is None else str(stand_in)


def probe() -> tuple[str, ...]:
    """Return the device types that the backend runs on here. Raises BackendUnavailableError."""
    torch = require("cutile", "torch", "install it with: pip install torch")
    install = how_to_install("cutile")
    require("cutile", "cuda.tile", install)
    if stand_in is not None:
        return ("cpu",)
    compiler = require("cutile", "kernelzoo.kernels.cutile.compiler", install)

    if why := compiler.why_cannot_compile():
        raise BackendUnavailableError("cutile", why, install)
    nvidia_only.check_devices("cutile", torch, LEAST_CAPABILITY)
    driver = require("cutile", "kernelzoo.kernels.shared.driver", "update the NVIDIA driver")
    if (found := driver.version()) < LEAST_DRIVER:
        had = f"{found // 1000}.{found % 1000 // 10}"
        raise BackendUnavailableError(
            "cutile", f"the driver is for CUDA {had}, and tileiras makes code for 13", "update the NVIDIA driver"
        )
    return ("cuda",)
