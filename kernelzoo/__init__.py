"""kernelzoo: the same GPU operations, side by side in several kernel languages, checked and measured honestly.

>>> import torch, kernelzoo
>>> x = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
>>> kernelzoo.softmax(x)  # by the best backend for the device of x
tensor([[0.5000, 0.5000],
        [0.5000, 0.5000]])
>>> kernelzoo.get("torch").min(x, dim=0)  # by one backend
tensor([0., 0.])
>>> "torch" in kernelzoo.backends()
True

The names below are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelzoo.backend import Backend, get, min, softmax
    from kernelzoo.errors import (
        AxisError,
        BackendUnavailableError,
        DeviceError,
        EmptyReductionError,
        GradientError,
        InputTypeError,
        InspectionError,
        KernelZooError,
        LaunchError,
        OutputError,
        RegistrationError,
        UnknownNameError,
        UnsupportedProblemError,
    )
    from kernelzoo.registry import Implementation, backends, chooser, implementation, implementations, register

__version__ = "0.2.0"

__all__ = [
    "AxisError",
    "Backend",
    "BackendUnavailableError",
    "DeviceError",
    "EmptyReductionError",
    "GradientError",
    "Implementation",
    "InputTypeError",
    "InspectionError",
    "KernelZooError",
    "LaunchError",
    "OutputError",
    "RegistrationError",
    "UnknownNameError",
    "UnsupportedProblemError",
    "__version__",
    "backends",
    "chooser",
    "get",
    "implementation",
    "implementations",
    "min",
    "register",
    "softmax",
]

_HOMES = {
    "backend": ("Backend", "get", "min", "softmax"),
    "registry": ("Implementation", "backends", "chooser", "implementation", "implementations", "register"),
}


_MODULES = ("backend", "device", "errors", "launch", "operations", "registry")


def __getattr__(name: str) -> Any:
    if name in _MODULES:  # import kernelzoo; kernelzoo.errors
        return importlib.import_module(f"kernelzoo.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    value = globals()[name] = getattr(importlib.import_module(f"kernelzoo.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
