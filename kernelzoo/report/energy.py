"""The energy of a launch, as a results file holds it, and what a reader must know of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Energy:
    """What the GPU's counter told of a launch; see :mod:`kernelzoo.measure.energy`."""

    launch_mj: float
    launches: int
    span_ms: float
    """In which it was read."""
    launch_us: float
    """A launch's time meanwhile."""
    step_ms: float
    """From one move of the counter to the next."""
    step_mj: float

    @property
    def watts(self) -> float:
        """Idle power included."""
        return 1e3 * self.launch_mj / self.launch_us


def digits(value: float) -> str:
    """Three significant digits, and every digit before the point, however small it is."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def resolution(energies: Iterable[Energy | None]) -> str:
    """What was measured and how finely, in words; empty without any."""
    known = [energy for energy in energies if energy is not None]
    if not known:
        return ""
    step, joules = (statistics.median(values) for values in zip(*((e.step_ms, e.step_mj) for e in known), strict=True))
    shortest, most = min(e.span_ms for e in known), max(e.step_ms / e.span_ms for e in known)
    return (
        "Energy is the whole GPU's, idle power included: by NVML's counter, over launches without a pause. It moves "
        f"every {step:.3g} ms, by {digits(joules)} mJ (medians); a span of launches is {shortest:.0f} ms at least, and "
        f"one step is {most:.0%} of it at most."
    )


def note(energies: Iterable[Energy | None], baseline: str) -> str:
    """The same for a table that has columns of energy."""
    words = resolution(energies)
    columns = f"`energy / {baseline}` is the energy of a launch divided by that of {baseline}, and `J/GB` by the bytes"
    return words and f"{columns} that must move. {words}"
