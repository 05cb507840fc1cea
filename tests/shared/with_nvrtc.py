"""Skips the module that imports it where CuPy, torch or NVRTC can't be loaded."""

import pytest

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

try:
    cupy.cuda.nvrtc.getVersion()
except Exception as error:  # a missing library shows as an ImportError, OSError or RuntimeError, by CuPy's version
    pytest.skip(f"NVRTC can't be loaded: {error}", allow_module_level=True)
