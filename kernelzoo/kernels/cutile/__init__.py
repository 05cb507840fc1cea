"""cuTile Python (the package cuda-tile): kernels over whole tiles of arrays, on NVIDIA GPUs.

Its compiler, tileiras, needs no device: kernels are compiled ahead of their first launch, and kept on disk.
"""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only
from kernelzoo.packages import how_to_install
from kernelzoo.registry import require

LEAST_CAPABILITY = (8, 0)
"""What tileiras compiles for at the least."""

LEAST_DRIVER = 13000
"""Of the CUDA driver, as it numbers itself: none before loads what tileiras makes."""

stand_in: Any = None
"""What runs the kernels in place of a device: the one place where the tests' emulators come in."""


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    return "" if stand_in is None else str(stand_in)


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    torch = require("cutile", "torch", "install it with: pip install torch")
    install = how_to_install("cutile")
    require("cutile", "cuda.tile", install)
    if stand_in is not None:
        return ("cpu",)
    compiler = require("cutile", "kernelzoo.kernels.cutile.compiler", install)

    if why := compiler.lacking():
        raise BackendUnavailableError("cutile", why, install)
    nvidia_only.check("cutile", torch, LEAST_CAPABILITY)
    driver = require("cutile", "kernelzoo.kernels.shared.driver", "update the NVIDIA driver")
    if (found := driver.version()) < LEAST_DRIVER:
        had = f"{found // 1000}.{found % 1000 // 10}"
        raise BackendUnavailableError(
            "cutile", f"the driver is for CUDA {had}, and tileiras makes code for 13", "update the NVIDIA driver"
        )
    return ("cuda",)
