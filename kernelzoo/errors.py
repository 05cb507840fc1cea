"""Every error of this package is a ``KernelZooError`` and also the builtin that a user expects.

Each message says what was given, what is allowed, and what to do. All but DeviceLostError and PeerError are raised
before a launch. A ContractError is a check's finding about a kernel, and an ``AssertionError`` instead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any


class PicklableErrorMixin:
    """Base of exceptions that keep their message and fields when pickled or copied. It must precede the builtin class.
    Python by default unpickles them from the message only. That fails, and a process pool waits forever."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return _restore_error, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]  # an exception's


def _restore_error(cls: type[Any], *args: Any) -> Any:
    error = BaseException.__new__(cls, *args)
    super(PicklableErrorMixin, error).__init__(*args)
    return error


class KernelZooError(PicklableErrorMixin, Exception):
    """Base of every error raised on purpose by kernelzoo."""


class UnknownNameError(KernelZooError, ValueError, LookupError):
    """A backend, operation or variant of that name is not registered.

    The message suggests close names, and lists all known ones, or their number if there are many. It is a
    ``ValueError`` as for any bad argument, and a ``LookupError`` since a look-up failed.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = closest_names(str(name), names)
        meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        listed = ", ".join(names) if len(names) <= _LISTED or not near else f"{len(names)} names"
        super().__init__(f"no {kind} {name!r}; {meant}known: {listed or 'none'}")


_LISTED = 30
"""The most names that are listed together with a suggestion."""


def closest_names(name: str, known: Sequence[str], count: int = 3) -> list[str]:
    """Return the known names with a similar spelling, the closest first."""
    from difflib import get_close_matches  # only a mistake needs it

    return get_close_matches(name, known, count, cutoff=0.65)


class BackendUnavailableError(KernelZooError, ImportError, RuntimeError):
    """A known backend cannot run on this machine: a package, a driver or a device is missing.

    ``reason`` says what is missing, and ``remedy`` how to fix it. It is an ``ImportError``, since most often a package
    is missing, and a ``RuntimeError``, since otherwise the device is.
    """

    def __init__(self, backend: str, reason: str, remedy: str) -> None:
        super().__init__(f"backend {backend!r} can't run here: {reason}; {remedy}")
        self.backend, self.reason, self.remedy = backend, reason, remedy


class RegistrationError(KernelZooError, ValueError):
    """An implementation was registered under an id that is taken or malformed."""


class OperationError(KernelZooError, RuntimeError):
    """The Python class that declares an operation has a fault: a function of it failed or returned a wrong value."""


class UndecidableError(KernelZooError, RuntimeError):
    """A kernel's result can't be judged, because the operation's reference code itself fails or is wrong."""


class BusyError(KernelZooError, RuntimeError):
    """A measured time contradicts a second clock, and other work ran on the machine. Measure again."""


class LaunchError(KernelZooError, TypeError):
    """An implementation did not return a launch, which is a function that runs the kernel."""

    def __init__(self, id: str, returned: object) -> None:
        name = f"{type(returned).__module__}.{type(returned).__qualname__}".removeprefix("builtins.")
        kind = "None" if returned is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
        super().__init__(
            f"{id} returned {kind}, not a launch; return a function that runs the kernel, takes no argument and "
            "writes its result into out"
        )
        self.id = id


class InputTypeError(KernelZooError, TypeError):
    """The input is no dense tensor of a dtype that the operation takes, or its storage was freed or shrunk."""


class ShapeError(KernelZooError, ValueError):
    """An input's shape does not match the first input or the operation."""


class RangeError(KernelZooError, IndexError, ValueError):
    """A label, or another integer input on the host, is out of its range (an ``IndexError``, as in torch)."""


class AxisError(KernelZooError, IndexError):
    """An axis is out of range or named twice (an ``IndexError``, as in torch)."""


class EmptyReductionError(KernelZooError, ValueError, IndexError):
    """The axis to reduce is empty, and the operation is undefined for zero elements.

    It is a ``ValueError``, as from Python's ``min(())`` and NumPy, and an ``IndexError``, as from ``torch.amin``.
    """


class DeviceError(KernelZooError, ValueError):
    """The tensor is on a device that the backend does not take."""


class OutputError(KernelZooError, ValueError):
    """``out`` has the wrong shape, dtype or device, overlaps the input or itself, or is no tensor with memory."""


class GradientError(KernelZooError, RuntimeError):
    """A gradient or tangent would be lost: the operation has no derivative, or ``out`` is given."""


class UnsupportedProblemError(KernelZooError, ValueError):
    """One variant can't take this shape, dtype or layout. The variant ``auto`` can, unless batch-invariant."""

    def __init__(
        self, implementation: str, reason: str, remedy: str = "variant='auto' takes every legal input"
    ) -> None:
        super().__init__(f"{implementation} can't take this problem: {reason}; {remedy}")
        self.implementation, self.reason = implementation, reason


class GridTooLargeError(UnsupportedProblemError):
    """One variant needs more blocks than a grid can have; ``auto`` splits such a problem."""

    def __init__(self, implementation: str, blocks: int, most: int) -> None:
        super().__init__(implementation, f"it needs {blocks} blocks, a grid holds {most}")


class CacheWarning(RuntimeWarning):
    """Machine code can't be stored on disk, or stored code can't be trusted, so each process compiles for itself."""


class InspectionError(KernelZooError, RuntimeError):
    """An implementation's kernels can't be shown: it has none, or a compiler or tool is missing or fails."""


class NoRoomError(KernelZooError, MemoryError, RuntimeError):
    """The machine lacks memory or address space. It is a ``RuntimeError``, as torch's own error is."""


class DeviceLostError(KernelZooError, RuntimeError):
    """An implementation broke the device's context, or changed it for good; this process can't measure any more."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"{id} broke the device or this process: {reason}")
        self.id, self.reason = id, reason


class PeerError(KernelZooError, RuntimeError):
    """An exchange between ranks (processes) failed: another rank raised, ended, or was later than the timeout."""


KINDS = (
    "crashes",
    "hangs",
    "writes outside its output",
    "changes its input",
    "changes its tensors",
    "changes the process",
    "wrong value",
    "drops NaN",
    "leaves out unwritten",
    "not repeatable",
    "wrong kind of result",
    "returns no launch",
    "raises",
    "refuses",
)
"""The kinds of findings, worst first: harm to other memory or processes, wrong results, then visible errors."""


class ContractError(PicklableErrorMixin, AssertionError):
    """A check found that a kernel breaks a promise. It is no KernelZooError, since the caller did nothing wrong."""

    def __init__(
        self,
        words: str,
        kind: str,
        *,
        place: Sequence[int] | None = None,
        got: object = None,
        expected: str = "",
        error: float | None = None,
        unit: str = "",
    ) -> None:
        super().__init__(words)
        self.kind = kind
        """One of KINDS."""
        self.place = None if place is None else tuple(place)
        """Index of the first wrong element in the result."""
        self.got = got
        self.expected = expected
        """The right value at that place, or its range, as text."""
        self.error, self.unit = error, unit
        """Distance from the nearest right value, and its unit: ``ulp``, or ``1`` for integers."""


def replace_message(error: AssertionError, words: str) -> AssertionError:
    """Return an assertion error with another message. A ContractError keeps all its other fields."""
    made = copy.copy(error) if isinstance(error, ContractError) else AssertionError()
    made.args = (words,)
    return made
