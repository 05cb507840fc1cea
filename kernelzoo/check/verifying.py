"""The checks of one implementation: how they run, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from kernelzoo.check import running
from kernelzoo.check.case import Case, NoRoomError
from kernelzoo.check.cases import cases
from kernelzoo.device import raise_if_device_lost
from kernelzoo.errors import (
    BackendUnavailableError,
    ContractError,
    LaunchError,
    OperationError,
    UndecidableError,
    UnsupportedProblemError,
)
from kernelzoo.lazy import torch
from kernelzoo.registry import Implementation


@dataclass(frozen=True)
class Finding:
    """One failed case. ``dataclasses.asdict`` turns it into JSON."""

    id: str
    case: str
    kind: str
    """One of :data:`kernelzoo.errors.KINDS`."""
    reason: str
    dtype: str = ""
    """Dtype of the first input. ``shape`` and ``strides`` describe the same input."""
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    dim: int | tuple[int, ...] | None = None
    scalars: dict[str, Any] = field(default_factory=dict)
    """Scalars that are not at their default."""
    place: tuple[int, ...] | None = None
    """Index of the first wrong element in the result; None if no element is wrong."""
    got: str | None = None
    expected: str | None = None
    """The right value of that element, or its range."""
    error: float | None = None
    """Distance from the nearest right value in ``unit``; None for NaN or infinity."""
    unit: str = ""
    """``ulp`` (units in the last place), or ``1`` for integers."""


@dataclass
class CheckResults:
    """The results of the checks of one implementation."""

    passed: int = 0
    refused: int = 0
    no_room: int = 0
    """Cases too large for this machine's memory or for an emulator."""
    left_out: int = 0
    """Cases left out because the implementation takes seconds to bind each. A case selected by name always runs."""
    findings: list[Finding] = field(default_factory=list)
    beyond: list[Finding] = field(default_factory=list)
    """Findings in cases whose values the operation's author did not expect; see ``Case.beyond``."""
    passed_beyond: int = 0
    unavailable: str = ""
    """Why the implementation can't run here, or ""."""
    at_fault: dict[str, str] = field(default_factory=dict)
    """Cases in which a function of the operation failed, and how. They do not count against the implementation."""
    undecidable: dict[str, str] = field(default_factory=dict)
    """Cases in which the operation's own reference exceeds its bounds, and how. No kernel is at fault."""
    weak: tuple[str, ...] = ()
    """Wrong results that its operation's bounds accept; see :func:`kernelzoo.check.weak.accepted_wrong_results`."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One check: its name, the dtype of its input, and how it runs.

    ``run`` gets a callback. Before the kernel runs, the callback gets what is known of the input: fields of Finding.
    """

    name: str
    dtype: str
    run: Callable[[Callable[[dict[str, Any]], None]], object]
    too_large: bool = False
    empty: bool = False
    """Whether its input is empty, so that no kernel runs."""
    beyond: bool = False
    """Whether the operation's author does not expect such values."""


def checks_of(implementation: Implementation, device: torch.device, *, whole: bool) -> list[Check]:
    """Return the contract's cases as checks. Unless ``whole``, an implementation slow to bind gets core cases only."""
    limit = running.max_elements(implementation)
    core_only = not whole and running.slow_to_bind(implementation.id)
    found = []
    for case in cases(implementation.op):
        if case.core or not core_only:
            run = partial(_run_case, implementation, case, str(device))
            found.append(Check(case.name, case.dtype, run, case.elements > limit, case.elements == 0, case.beyond))
    return found


def _run_case(
    implementation: Implementation, case: Case, device: str, report_input: Callable[[dict[str, Any]], None]
) -> None:
    inputs = case.inputs(device)
    x = inputs[0]
    laid = {"shape": tuple(x.shape), "strides": x.stride()}
    report_input({"dtype": case.dtype, **laid, "dim": case.dim, "scalars": dict(case.scalars)})
    running.check_on_inputs(implementation, case, inputs)


def select(checks: Sequence[Check], patterns: Sequence[str], dtypes: Sequence[str]) -> list[Check]:
    """Return the checks that match one of the patterns and one of the dtypes. An empty sequence matches all."""
    return [
        check
        for check in checks
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
) -> CheckResults:
    """Run checks of one implementation.

    ``whole``: whether ``among`` has all checks. If so, refusing all of them is a finding. ``progress`` gets the name of
    each check before it starts. Before the kernel runs, it gets the name again, with what is known of the input.

    Raises DeviceLostError if the implementation broke the device for this process.
    """
    found = CheckResults(left_out=_count_left_out(implementation, among))
    for check in among:
        if check.too_large:
            found.no_room += not whole  # the user named it
            continue
        progress(check.name, {})
        _run_check(found, implementation, check, device, progress)
        if found.unavailable:
            return found
    empty = sum(check.empty for check in among)
    if whole and found.refused and found.passed <= empty and not found.findings:
        found.findings.append(
            Finding(implementation.id, "", "refuses", "it refused every case, so that nothing was checked")
        )
    return found


def _count_left_out(implementation: Implementation, among: Sequence[Check]) -> int:
    """Return how many cases of the checks' dtypes are left out because only core cases run."""
    if not running.slow_to_bind(implementation.id):
        return 0
    dtypes, names = {check.dtype for check in among}, {check.name for check in among}
    beside = [case for case in cases(implementation.op) if not case.core and case.dtype in dtypes]
    return 0 if any(case.name in names for case in beside) else len(beside)


def _run_check(
    found: CheckResults,
    implementation: Implementation,
    check: Check,
    device: torch.device,
    progress: Callable[[str, dict[str, Any]], None],
) -> None:
    known: dict[str, Any] = {"dtype": check.dtype}

    def about(facts: dict[str, Any]) -> None:
        known.update(facts)
        progress(check.name, known)

    def add(kind: str, reason: str, **more: Any) -> None:
        among = found.beyond if check.beyond else found.findings
        among.append(Finding(implementation.id, check.name, kind, reason, **known, **more))

    try:
        check.run(about)
        found.passed += not check.beyond
        found.passed_beyond += check.beyond
    except BackendUnavailableError as error:  # a missing compiler shows at the first bind
        found.unavailable = str(error)
    except NoRoomError:
        found.no_room += 1
    except OperationError as error:
        found.at_fault[check.name] = str(error)
    except UndecidableError as error:
        found.undecidable[check.name] = str(error)
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
    except Exception as error:  # any other error of a kernel is a finding
        add("raises", f"raised {type(error).__name__}: {error}")
    else:
        return
    if said := found.beyond if check.beyond else found.findings:
        raise_if_device_lost(device, implementation.id, said[-1].reason)
