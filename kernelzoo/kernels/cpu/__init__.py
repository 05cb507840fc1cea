"""Numba on the host: parallel loops that LLVM vectorises. The default where there is no GPU."""

from typing import Any

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.registry import require


def probe() -> tuple[str, ...]:
    """Return the device types that this backend takes here. Raises BackendUnavailableError."""
    require("cpu", "torch", "install it with: pip install torch")
    numba = require("cpu", "numba", "install it with: pip install 'kernelzoo[cpu]'")
    if numba.config.DISABLE_JIT:
        raise BackendUnavailableError("cpu", "NUMBA_DISABLE_JIT is set, and its kernels must be compiled", "unset it")
    if missing := _explain_missing_threads(numba):
        raise BackendUnavailableError("cpu", *missing)
    return ("cpu",)


_MODULES = {"tbb": "tbbpool", "omp": "omppool", "workqueue": "workqueue"}
_LAYERS = {
    **{name: (name,) for name in _MODULES},
    "safe": ("tbb",),
    "threadsafe": ("tbb", "omp"),
    "forksafe": ("tbb", "workqueue"),
}
"""The values of NUMBA_THREADING_LAYER other than "default", and the layers of Numba that each allows."""


def _explain_missing_threads(numba: Any) -> tuple[str, str] | None:
    """Return why Numba can't start threads, and the remedy; None if it can. Numba itself would only fail at its
    first parallel loop. This function starts no threads."""
    layer, order = str(numba.config.THREADING_LAYER).lower(), list(numba.config.THREADING_LAYER_PRIORITY)
    if sorted(order) != sorted(_MODULES):
        return (
            f"NUMBA_THREADING_LAYER_PRIORITY is {' '.join(order)!r}",
            f"unset it, or name {', '.join(_MODULES)} in it",
        )
    among = tuple(order) if layer == "default" else _LAYERS.get(layer, ())
    if not among:
        return f"NUMBA_THREADING_LAYER is {layer!r}", f"unset it, or set it to one of default, {', '.join(_LAYERS)}"
    if "workqueue" in among or any(map(_can_load_threading_layer, among)):  # workqueue comes with Numba
        return None
    install = "pip install tbb, or " if "tbb" in among else ""
    return f"NUMBA_THREADING_LAYER is {layer!r}, and {' or '.join(among)} can't be loaded", f"{install}unset it"


def _can_load_threading_layer(layer: str) -> bool:
    try:
        if layer == "tbb":
            require("cpu", "numba.np.ufunc.parallel", "")._check_tbb_version_compatible()
        require("cpu", f"numba.np.ufunc.{_MODULES[layer]}", "")
    except (BackendUnavailableError, ImportError):
        return False
    return True
