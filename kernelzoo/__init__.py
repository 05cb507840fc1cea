"""kernelzoo: the same GPU operations, side by side in several kernel languages, checked and measured honestly."""

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
