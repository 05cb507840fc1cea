"""How to read the energy of a launch."""

import statistics
from collections.abc import Iterable

from kernelzoo.measure.energy import Energy


def digits(value: float) -> str:
    """Three significant digits, and every digit before the point."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def resolution(energies: Iterable[Energy | None]) -> str:
    """What was measured and how finely, as text; empty without any energy."""
    known = [energy for energy in energies if energy is not None]
    if not known:
        return ""
    step, joules = (statistics.median(values) for values in zip(*((e.step_ms, e.step_mj) for e in known), strict=True))
    shortest, most = min(e.span_ms for e in known), max(e.step_ms / e.span_ms for e in known)
    return (
        "Energy is the whole GPU's, idle power included, by NVML's counter over launches without a pause. It moves "
        f"every {step:.3g} ms, by {digits(joules)} mJ (medians). A span of launches is at least {shortest:.0f} ms, and "
        f"one step at most {most:.0%} of it."
    )


def notes(energies: Iterable[Energy | None], baseline: str) -> list[str]:
    """The footer of a table with columns of energy; none without any."""
    words = resolution(energies)
    columns = f"`energy / {baseline}` is the energy of a launch divided by that of {baseline}."
    return [f"{columns} `J/GB` is the energy divided by the necessary bytes. {words}"] if words else []
