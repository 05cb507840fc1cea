"""What a run of the benches shows as it goes: each problem when it begins, and its rows when it is measured."""

from __future__ import annotations

from typing import Any

import pytest

from kernelzoo import measure, registry
from kernelzoo.cli.output import number, shorten_reason
from kernelzoo.terminal import width, wrap_text

WIDTH = 80
"""Characters of a line at most, however wide the terminal."""


def say(config: pytest.Config, *lines: str) -> None:
    """Print lines at once, while pytest captures what a test prints."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        for line in lines:
            reporter.write_line(line)
        reporter.flush()


def beginning(device: str, absent: dict[str, str]) -> list[str]:
    """The device, the backends that take no part, and how to read the rows."""
    found = [f"Measured on {device}."]
    if absent:
        found.append("Not here, and how to get it:")
    for name, why in absent.items():
        found += _fitted(f"{name}: {why}")
    return [*found, "Median time; time / torch's own, below 1 is faster; speed as a bar.", ""]


def heading(problem: str, number: int, count: int) -> str:
    return f"{problem} ({number} of {count})"


def rows(problem: measure.Problem, measured: dict[str, measure.Measurement], told: set[str]) -> list[str]:
    """The lines of one problem, the fastest first; then what has no time, and why. ``told`` holds the lines of
    refusals that were printed before, which are not printed again."""
    medians = {id: result.median * 1e6 for id, result in measured.items() if result.samples}
    yardstick = medians.get(registry.baseline(problem.op))
    names = {id: id.replace(f"/{problem.op}/", "/") for id in measured}
    longest = max(map(len, names.values()))
    found = []
    for id, median in sorted(medians.items(), key=lambda item: item[1]):
        ratio = number(median / yardstick) if yardstick else ""
        line = f"  {names[id]:{longest}} {number(median):>9} µs {ratio:>6} "
        room = min(width(), WIDTH) - len(line)
        found.append(line + _bar(min(medians.values()) / median, room))
    refusals: dict[str, list[str]] = {}
    for id, result in measured.items():
        if result.refused:
            refusals.setdefault(result.refused.removeprefix(f"{id} "), []).append(names[id])
        elif not result.samples:
            found += _fitted(f"no time for {names[id]}: {shorten_reason(result.wrong or result.failed)}")
    for why, forms in refusals.items():
        if (line := f"not taken by {', '.join(forms)}: {shorten_reason(why)}") not in told:
            found += _fitted(line)
            told.add(line)
    return [*found, ""]


def _bar(share: float, room: int) -> str:
    whole, part = divmod(round(share * room * 8), 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")


def _fitted(text: str) -> list[str]:
    first, *more = wrap_text(text, min(width(), WIDTH) - 2)
    return [f"  {first}", *(f"    {line}" for line in more)]
