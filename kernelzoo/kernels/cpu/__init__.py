"""Numba on the host: parallel loops that LLVM vectorises. The default where there is no GPU."""

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    require("cpu", "torch", "install it with: pip install torch")
    numba = require("cpu", "numba", "install it with: pip install 'kernelzoo[cpu]'")
    if numba.config.DISABLE_JIT:
        raise BackendUnavailableError("cpu", "NUMBA_DISABLE_JIT is set, and its kernels must be compiled", "unset it")
    return ("cpu",)
