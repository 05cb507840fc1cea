"""Compare the same GPU operations in several kernel languages: check them and measure them.

>>> import torch, kernelzoo
>>> x = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
>>> kernelzoo.softmax(x)  # by the best backend for the device of x
tensor([[0.5000, 0.5000],
        [0.5000, 0.5000]])
>>> kernelzoo.get("torch").min(x, dim=0)  # by one backend
tensor([0., 0.])
>>> "torch" in kernelzoo.backends()
True

Each operation is a function here, and a method of every backend. All names are imported on first use, so importing the
package costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelzoo import definitions as definitions
    from kernelzoo import device as device
    from kernelzoo import errors as errors
    from kernelzoo import launch as launch
    from kernelzoo import operations as operations
    from kernelzoo import registry as registry
    from kernelzoo import results as results
    from kernelzoo.calls.backend import Backend, get
    from kernelzoo.cli.comparing import compare
    from kernelzoo.definitions import export_definition, load_definition, load_solution
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
        RangeError,
        RegistrationError,
        ShapeError,
        UnknownNameError,
        UnsupportedProblemError,
    )
    from kernelzoo.operations import FLOATS, INTEGERS, Input, Output, Scalar, operation
    from kernelzoo.registry import Implementation, backends, chooser, implementation, implementations, register
    from kernelzoo.signatures import *  # noqa: F403

__version__ = "0.2.0"

__all__ = [
    "FLOATS",
    "INTEGERS",
    "AxisError",
    "Backend",
    "BackendUnavailableError",
    "DeviceError",
    "EmptyReductionError",
    "GradientError",
    "Implementation",
    "Input",
    "InputTypeError",
    "InspectionError",
    "KernelZooError",
    "LaunchError",
    "Output",
    "OutputError",
    "RangeError",
    "RegistrationError",
    "Scalar",
    "ShapeError",
    "UnknownNameError",
    "UnsupportedProblemError",
    "__version__",
    "backends",
    "chooser",
    "compare",
    "export_definition",
    "get",
    "implementation",
    "implementations",
    "load_definition",
    "load_solution",
    "operation",
    "register",
]

_HOMES = {
    "calls.backend": ("Backend", "get"),
    "cli.comparing": ("compare",),
    "definitions": ("export_definition", "load_definition", "load_solution"),
    "operations": ("FLOATS", "INTEGERS", "Input", "Output", "Scalar", "operation"),
    "registry": ("Implementation", "backends", "chooser", "implementation", "implementations", "register"),
}


_MODULES = ("definitions", "device", "errors", "launch", "operations", "registry", "results")


def _attribute(name: str) -> Any:
    if name in _MODULES:  # for example kernelzoo.errors
        return importlib.import_module(f"kernelzoo.{name}")
    if name not in __all__:
        if name.startswith("_") or name not in importlib.import_module("kernelzoo.operations").OPERATIONS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = importlib.import_module("kernelzoo.calls.backend").public_function(name)
        return value
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    value = globals()[name] = getattr(importlib.import_module(f"kernelzoo.{home}"), name)
    return value


if not TYPE_CHECKING:  # a type checker would take any name to exist
    __getattr__ = _attribute


def __dir__() -> list[str]:
    return sorted((*__all__, *importlib.import_module("kernelzoo.operations").OPERATIONS))
