"""The baseline: torch itself. It runs on the CPU and on any CUDA or ROCm device."""

from kernelzoo.registry import require

SLOW_TO_BIND = ("compile",)
"""Variants that take seconds to bind each problem."""


def probe() -> tuple[str, ...]:
    """Return the device types that this backend takes here. Raises BackendUnavailableError."""
    torch = require("torch", "torch", "install it with: pip install torch")
    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
