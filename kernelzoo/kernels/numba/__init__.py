"""Numba CUDA (the numba-cuda package): kernels in Python syntax, on NVIDIA GPUs."""

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import nvidia_only
from kernelzoo.packages import requirement, why_version_unfit
from kernelzoo.registry import require

COMPILES_WITH = {"NUMBA_ENABLE_CUDASIM": "0"}
"""Environment variables with which kernels can be compiled. Numba's simulator compiles nothing."""

_INSTALL = "install it with: pip install 'kernelzoo[numba-cuda13]' (or numba-cuda12 for a CUDA 12 driver)"


def probe() -> tuple[str, ...]:
    """Return the device types that the backend runs on here: cuda. Raises BackendUnavailableError."""

    def refuse(why: str, remedy: str) -> BackendUnavailableError:
        return BackendUnavailableError("numba", why, remedy)

    torch = require("numba", "torch", "install it with: pip install torch")
    numpy = require("numba", "numpy", _INSTALL)
    if why := why_version_unfit("numpy", numpy.__version__, "numba"):
        raise refuse(f"numba-cuda fails: {why}", f"install another with: pip install '{requirement('numpy', 'numba')}'")
    cuda = require("numba", "numba.cuda", _INSTALL)
    if getattr(cuda, "implementation", None) != "NVIDIA":
        raise refuse("the package 'numba-cuda' is not installed", _INSTALL)
    if cuda.config.ENABLE_CUDASIM:
        raise refuse("NUMBA_ENABLE_CUDASIM is set, and Numba's simulator has no warp shuffles", "unset it")
    nvidia_only.check_devices("numba", torch, (8, 0))
    require("numba", "cuda.core", _INSTALL)
    driver = require("numba", "cuda.bindings.driver", _INSTALL)
    nvvm = require("numba", "numba.cuda.cudadrv.nvvm", _INSTALL)
    nvrtc = require("numba", "numba.cuda.cudadrv.nvrtc", _INSTALL)
    for what, loads in (
        ("its compiler, libNVVM,", nvvm.NVVM),
        ("its compiler's library, libdevice,", nvvm.LibDevice),
        ("NVRTC, which says what it compiles for,", nvrtc.get_lowest_supported_cc),
    ):
        try:
            loads()
        except Exception as error:  # Numba raises one of several types of its own
            raise refuse(f"{what} can't be loaded: {error}", _INSTALL) from error
    status, version = driver.cuDriverGetVersion()
    found, supported = cuda.runtime.get_version()[0], version // 1000
    if status or found > supported:
        why = f"the CUDA {found} toolkit found makes code that this driver, for CUDA {supported}, can't load"
        remedy = f"pip install 'kernelzoo[numba-cuda{supported}]' installs the matching one; or update the driver"
        raise refuse(why, remedy)
    return ("cuda",)


def emulator() -> str:
    """Return "": no emulator runs these kernels."""
    return ""
