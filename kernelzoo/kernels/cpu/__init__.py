"""Numba on the host: parallel loops that LLVM vectorises. The default where there is no GPU."""

from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    require("cpu", "torch", "install it with: pip install torch")
    require("cpu", "numba", "install it with: pip install 'kernelzoo[cpu]'")
    return ("cpu",)
