"""Whether a backend can run on this machine, or else the reason and the remedy."""

import warnings
from dataclasses import dataclass

from kernelzoo import operations, tables
from kernelzoo.errors import BackendUnavailableError


@dataclass(frozen=True)
class Availability:
    """The devices on which a backend can run. If there are none, ``reason`` says why, and ``remedy`` what to do."""

    backend: str
    devices: tuple[str, ...] = ()
    emulator: str = ""
    """The name of the emulator that runs the kernels, or "". Emulated kernels are checked, but never timed."""
    reason: str = ""
    remedy: str = ""
    tables: str = ""
    """The text of :func:`describe_launch_tables`, or "" without a GPU."""
    tried: bool = True
    """Whether the backend was loaded. If not, its devices are unknown."""

    @property
    def words(self) -> str:
        if self.emulator:
            return f"runs in {self.emulator}: checked, never timed"
        if self.devices:
            return f"runs on {' and '.join(self.devices)}"
        how = "can't run here" if self.tried else "not loaded"
        return f"{how}: {self.reason}; {self.remedy}"


def availability(backend: str) -> Availability:
    """Load a backend and its language. Return the backend's devices, or the reason why it can't run."""
    from kernelzoo.calls import backend as backends

    try:
        found = backends.get(backend)
    except BackendUnavailableError as error:
        return Availability(backend, reason=error.reason, remedy=error.remedy)
    tables = describe_launch_tables(backend) if "cuda" in found.devices and not found.emulator else ""
    return Availability(backend, found.devices, found.emulator, tables=tables)


def describe_launch_tables(backend: str) -> str:
    """Name the first GPU's launch tables (numbers for kernel launches), and say why any stored table can't be used."""
    with warnings.catch_warnings(record=True) as ignored:
        warnings.simplefilter("always")
        told = {op: label for op in operations.OPERATIONS if (label := tables.table_label(backend, op, 0)) is not None}
    alike = len(set(told.values())) == 1
    words = next(iter(told.values())) if alike else ", ".join(f"{op} {label}" for op, label in told.items())
    return "; ".join([words, *(str(one.message) for one in ignored)] if words else [])
