"""Runs the checks of one implementation, and writes down each finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelzoo.check import running
from kernelzoo.check.case import Case, NoRoomError
from kernelzoo.check.cases import cases
from kernelzoo.device import device_lives
from kernelzoo.errors import (
    BackendUnavailableError,
    ContractError,
    LaunchError,
    UnsupportedProblemError,
)
from kernelzoo.registry import Implementation

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Finding:
    """One case that failed. ``dataclasses.asdict`` makes JSON of it."""

    id: str
    case: str
    kind: str
    """One of :data:`kernelzoo.errors.KINDS`."""
    reason: str
    dtype: str = ""
    """Of the input, as are shape and strides."""
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    dim: int | tuple[int, ...] | None = None
    place: tuple[int, ...] | None = None
    """Where in the result the first wrong element lies; None where no element is to blame."""
    got: str | None = None
    expected: str | None = None
    """The right value there, or the range of right values."""
    error: float | None = None
    """How far the element lies beyond the nearest right value, in ``unit``; None where that is no number."""
    unit: str = ""
    """``ulp`` (units in the last place), or ``1`` for integers."""


@dataclass
class Found:
    """The results of the checks of one implementation."""

    passed: int = 0
    refused: int = 0
    no_room: int = 0
    """Cases that this machine's memory, or an emulator's patience, can't hold."""
    left_out: int = 0
    """Cases that an implementation was not asked, since it takes seconds to bind each; a case named is asked."""
    findings: list[Finding] = field(default_factory=list)
    unavailable: str = ""
    """Why it can't run here, or ""."""
    weak: tuple[str, ...] = ()
    """What the bounds of its operation accept, and should not; see :func:`kernelzoo.check.weak.weak`."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One check: its name, the dtype of its input, and how it runs.

    ``run`` is given a function that takes what is known of the input (fields of Finding), before the kernel runs.
    """

    name: str
    dtype: str
    run: Callable[[Callable[[dict[str, Any]], None]], object]
    too_large: bool = False
    empty: bool = False
    """Whether its input has no element, so that no kernel is ever asked."""


def checks(implementation: Implementation, device: torch.device, *, whole: bool) -> list[Check]:
    """The contract's cases; without ``whole``, the core cases alone for an implementation that is slow to bind."""
    limit = running.largest(implementation)
    core_only = not whole and running.slow_to_bind(implementation.id)
    return [
        Check(
            case.name,
            case.dtype,
            partial(_run_case, implementation, case, str(device)),
            case.elements > limit,
            case.elements == 0,
        )
        for case in cases(implementation.op)
        if case.core or not core_only
    ]


def _run_case(implementation: Implementation, case: Case, device: str, about: Callable[[dict[str, Any]], None]) -> None:
    inputs = case.inputs(device)
    x = inputs[0]
    about({"dtype": case.dtype, "shape": tuple(x.shape), "strides": x.stride(), "dim": case.dim})
    running.check_on(implementation, case, inputs)


def chosen(among: Sequence[Check], patterns: Sequence[str], dtypes: Sequence[str]) -> list[Check]:
    """The checks that some pattern names, of some dtype; no pattern, or no dtype, stands for all."""
    return [
        check
        for check in among
        if (not patterns or any(fnmatchcase(check.name, pattern) for pattern in patterns))
        and (not dtypes or check.dtype in dtypes)
    ]


def verify(
    implementation: Implementation,
    among: Sequence[Check],
    device: torch.device,
    *,
    whole: bool,
    progress: Callable[[str, dict[str, Any]], None],
) -> Found:
    """Run checks of one implementation.

    ``whole``: they are all that there are, so that one which refuses them all is a finding. ``progress`` is told the
    name of a check before it runs, and again with what is known of its input before the kernel runs.

    Raises DeviceLostError if the implementation broke the device for this process.
    """
    found = Found(left_out=_left_out(implementation, among))
    for check in among:
        if check.too_large:
            found.no_room += not whole  # it was asked for
            continue
        progress(check.name, {})
        _judge(found, implementation, check, device, progress)
        if found.unavailable:
            return found
    empty = sum(check.empty for check in among)
    if whole and found.passed <= empty and not found.findings:
        found.findings.append(
            Finding(implementation.id, "", "refuses", "it refused every case, so that nothing was checked")
        )
    return found


def _left_out(implementation: Implementation, among: Sequence[Check]) -> int:
    """The number of cases beside the core of the dtypes at hand, if none of them is asked."""
    if not running.slow_to_bind(implementation.id):
        return 0
    dtypes, names = {check.dtype for check in among}, {check.name for check in among}
    beside = [case for case in cases(implementation.op) if not case.core and case.dtype in dtypes]
    return 0 if any(case.name in names for case in beside) else len(beside)


def _judge(
    found: Found,
    implementation: Implementation,
    check: Check,
    device: torch.device,
    progress: Callable[[str, dict[str, Any]], None],
) -> None:
    """Run one check, and add its result to what was found."""
    known: dict[str, Any] = {"dtype": check.dtype}

    def about(facts: dict[str, Any]) -> None:
        known.update(facts)
        progress(check.name, known)

    def add(kind: str, reason: str, **more: Any) -> None:
        found.findings.append(Finding(implementation.id, check.name, kind, reason, **known, **more))

    try:
        check.run(about)
        found.passed += 1
    except BackendUnavailableError as error:  # a compiler is missing, say, which shows at the first bind
        found.unavailable = str(error)
    except NoRoomError:
        found.no_room += 1
    except UnsupportedProblemError as error:
        found.refused += 1
        if implementation.variant == "auto":
            add("refuses", f"auto takes every legal input, and refused this: {error.reason}")
    except LaunchError as error:
        add("returns no launch", str(error))
    except ContractError as error:
        got = None if error.place is None or error.got is None else repr(error.got)
        place, expected = error.place, error.expected or None
        add(error.kind, str(error), place=place, got=got, expected=expected, error=error.error, unit=error.unit)
    except Exception as error:  # anything else that a kernel may raise is a finding
        add("raises", f"raised {type(error).__name__}: {error}")
    else:
        return
    if found.findings:
        device_lives(device, implementation.id, found.findings[-1].reason)
