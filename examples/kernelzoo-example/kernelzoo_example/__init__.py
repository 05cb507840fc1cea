"""NumPy on the host, as a backend of kernelzoo that another package brings.

Nothing heavy is imported here, so that kernelzoo can ask whether this backend runs before it is loaded. What it holds
is read off the ``@register`` lines of ``softmax.py`` and ``min.py``, without importing those.
"""

from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Device types this backend takes here. Raises BackendUnavailableError."""
    require("example", "torch", "install it with: pip install torch")
    require("example", "numpy", "install it with: pip install numpy")
    return ("cpu",)
