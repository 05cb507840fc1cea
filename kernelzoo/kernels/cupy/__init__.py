"""CUDA C++ through CuPy: compiled by NVRTC on first use, launched on torch's tensors and torch's stream."""

from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache
from kernelzoo.registry import require

_INSTALL = "pip install 'kernelzoo[cupy-cuda13]' (for a CUDA 13 driver) or 'kernelzoo[cupy-cuda12]'"


COMPILES_WITH: dict[
    str, str
] = {}  # environment of the process that compiles kernels to be shown: nothing is cached there

stand_in: Any = None
"""The tests' emulator, where it runs the kernels: a ``Machine`` of launch.py, with ``probe()`` and ``name``."""


def emulator() -> str:
    """What runs the kernels in place of a device, or ""."""
    return "" if stand_in is None else str(stand_in.name)


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    if stand_in is not None:
        taken: tuple[str, ...] = stand_in.probe()
        return taken
    torch = require("cupy", "torch", "install it with: pip install torch")
    # CuPy looks at it as it loads.
    code_cache.for_language("CUPY_CACHE_DIR", Path("~/.cupy/kernel_cache").expanduser())
    cupy = require("cupy", "cupy", f"install it with: {_INSTALL}")

    unavailable, runtime = partial(BackendUnavailableError, "cupy"), cupy.cuda.runtime
    if torch.version.hip is not None or runtime.is_hip:
        raise unavailable("its kernels are CUDA C++, and this is ROCm", "use kernelzoo.get('triton') here")
    if not torch.cuda.is_available():
        raise unavailable(
            "torch sees no CUDA device",
            "it needs an NVIDIA GPU, its driver (check nvidia-smi) and a torch built for CUDA",
        )
    built_for, driver = runtime.runtimeGetVersion() // 1000, runtime.driverGetVersion() // 1000
    if driver < built_for:
        raise unavailable(
            f"this CuPy is built for CUDA {built_for}, and the driver is one of CUDA {driver}",
            f"pip uninstall cupy-cuda{built_for}x && pip install 'kernelzoo[cupy-cuda{driver}]', or update the driver",
        )
    try:
        devices = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise unavailable(f"CuPy finds no CUDA device: {error}", f"update the driver, or {_INSTALL}") from error
    if devices == 0:
        raise unavailable("CuPy finds no CUDA device", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
    # Not min(): once this package's folder of that name is imported, that is what the name means here.
    oldest = sorted(torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count()))[0]
    if oldest < (8, 0):
        raise unavailable(
            f"its kernels need compute capability 8.0, and a device here has {oldest[0]}.{oldest[1]}",
            "hide that device with CUDA_VISIBLE_DEVICES, or use kernelzoo.get('triton')",
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # a missing library shows as an ImportError, OSError or RuntimeError, by CuPy's version
        raise unavailable(
            f"NVRTC, which compiles its kernels, can't be loaded: {error}",
            f"pip install nvidia-cuda-nvrtc{'' if built_for >= 13 else f'-cu{built_for}'}",
        ) from error
    return ("cuda",)
