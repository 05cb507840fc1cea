"""One hierarchy: every error this package raises is a ``KernelZooError`` and also the builtin a user expects.

Each message says what was given, what is allowed, and what to do. All but DeviceLostError are raised before anything is
launched.
"""

from __future__ import annotations

from collections.abc import Iterable


class KernelZooError(Exception):
    """Base of every error raised on purpose by kernelzoo."""


class UnknownNameError(KernelZooError, ValueError, LookupError):
    """A backend, operation or variant of that name is not registered; the message lists the known ones.

    A ``ValueError`` as for any bad argument, and a ``LookupError`` since it is a failed look-up.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        super().__init__(f"no {kind} {name!r}; known: {', '.join(sorted(known)) or 'none'}")


class BackendUnavailableError(KernelZooError, ImportError, RuntimeError):
    """A known backend cannot run on this machine: a package, a driver or a device is missing.

    ``reason`` says what is missing and ``remedy`` what mends it. An ``ImportError`` since most often a package is not
    installed, a ``RuntimeError`` since otherwise the device is what is missing.
    """

    def __init__(self, backend: str, reason: str, remedy: str) -> None:
        super().__init__(f"backend {backend!r} can't run here: {reason}; {remedy}")
        self.backend, self.reason, self.remedy = backend, reason, remedy


class RegistrationError(KernelZooError, ValueError):
    """An implementation was registered under an id that is taken, or that is not well formed."""


class InputTypeError(KernelZooError, TypeError):
    """The input is not a dense tensor of a dtype that the operation takes."""


class AxisError(KernelZooError, IndexError):
    """An axis is out of range or named twice (an ``IndexError``, as in torch)."""


class EmptyReductionError(KernelZooError, ValueError, IndexError):
    """The minimum of nothing was asked for.

    A ``ValueError``, as Python's ``min(())`` and NumPy raise, and an ``IndexError``, as ``torch.amin`` raises.
    """


class DeviceError(KernelZooError, ValueError):
    """The tensor is on a device that the backend does not take."""


class OutputError(KernelZooError, ValueError):
    """``out`` has the wrong shape, dtype or device, overlaps the input or itself, or is not a tensor."""


class GradientError(KernelZooError, RuntimeError):
    """The input requires a gradient, which no kernel here computes; silently dropping it would be worse."""


class UnsupportedProblemError(KernelZooError, ValueError):
    """One variant cannot take this shape, dtype or layout; ``auto`` of the same backend can."""

    def __init__(self, implementation: str, reason: str) -> None:
        super().__init__(f"{implementation} can't take this problem: {reason}; variant='auto' takes every legal input")
        self.implementation, self.reason = implementation, reason


class GridTooLargeError(UnsupportedProblemError):
    """One variant needs more blocks than a grid holds; ``auto`` takes such a problem in parts."""

    def __init__(self, implementation: str, blocks: int, most: int) -> None:
        super().__init__(implementation, f"it needs {blocks} blocks, a grid holds {most}")


class CacheWarning(RuntimeWarning):
    """Machine code can't be kept on disk, or what is kept is not to be trusted: each process compiles for itself."""


class InspectionError(KernelZooError, RuntimeError):
    """An implementation's kernels can't be shown: it has none of its own, or a compiler or tool is missing or fails."""


class DeviceLostError(KernelZooError, RuntimeError):
    """An implementation broke the device's context (an illegal access, say): this process can measure no more."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"{id} broke the device for this process: {reason}")
        self.id, self.reason = id, reason
