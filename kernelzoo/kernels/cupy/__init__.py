"""CUDA C++ through CuPy: compiled by NVRTC on first use, launched on torch's tensors and torch's stream."""

from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.shared import code_cache, nvidia_only
from kernelzoo.registry import require

_INSTALL = "pip install 'kernelzoo[cupy-cuda13]' (for a CUDA 13 driver) or 'kernelzoo[cupy-cuda12]'"

COMPILES_WITH: dict[str, str] = {}
"""Environment variables to set in a process that compiles kernels only to show them. CuPy needs none."""

stand_in: Any = None
"""The tests' emulator, or None. It has the attributes ``probe``, ``name``, ``device_of`` and ``loaded``."""


def emulator() -> str:
    """Return the name of the emulator that runs the kernels in place of a device, or ""."""
    return "" if stand_in is None else str(stand_in.name)


def probe() -> tuple[str, ...]:
    """Return the device types that this backend runs on here. Raises BackendUnavailableError."""
    if stand_in is not None:
        taken: tuple[str, ...] = stand_in.probe()
        return taken
    torch = require("cupy", "torch", "install it with: pip install torch")
    # CuPy reads this variable when it is imported.
    code_cache.check_cache_folder("CUPY_CACHE_DIR", Path("~/.cupy/kernel_cache").expanduser())
    cupy = require("cupy", "cupy", f"install it with: {_INSTALL}")

    nvidia_only.check_devices("cupy", torch, (8, 0))
    unavailable, runtime = partial(BackendUnavailableError, "cupy"), cupy.cuda.runtime
    if runtime.is_hip:
        raise unavailable("its kernels are CUDA C++, and this CuPy is for ROCm", f"install another with: {_INSTALL}")
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
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # a missing library: ImportError, OSError or RuntimeError, depending on CuPy's version
        raise unavailable(
            f"NVRTC, which compiles its kernels, can't be loaded: {error}",
            f"pip install nvidia-cuda-nvrtc{'' if built_for >= 13 else f'-cu{built_for}'}",
        ) from error
    return ("cuda",)
