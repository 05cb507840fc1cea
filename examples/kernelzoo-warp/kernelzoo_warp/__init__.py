"""NVIDIA Warp as a backend of kernelzoo: softmax, min and rms_norm, on the host and on NVIDIA GPUs.

A block has a row. Its threads take elements in turn, and meet in a tile of one value each. On the host a block is one
thread. Nothing heavy is imported here, so that kernelzoo can ask whether this backend runs before it is loaded.
"""

from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    torch = require("warp", "torch", "install it with: pip install torch")
    require("warp", "warp", "install it with: pip install warp-lang")
    return ("cuda", "cpu") if torch.cuda.is_available() and torch.version.cuda else ("cpu",)
