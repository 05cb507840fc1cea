"""The marks after names and times, and the explanations of marks below a table."""

import statistics
from collections.abc import Collection, Iterable, Sequence

from kernelzoo import registry
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.measure.energy import Energy
from kernelzoo.measure.measurement import BREAKS
from kernelzoo.report.table import format_three_digits

DAGGER, TILDE = "†", "~"

NOTES = {
    DAGGER: "breaks the contract on special values; it was timed on request (--waive) and never counts as the best.",
    TILDE: "disturbed by other work or a changed clock. Stop other programs (kernelzoo doctor names suspects) and "
    "measure again before you rank these.",
}
"""The meaning of each mark, in the order in which marks are printed."""

_MARKS = {BREAKS: DAGGER, DISTURBED: TILDE}


def marks(flags: Iterable[str]) -> list[str]:
    """Return the marks of a result's flags. Some flags have no mark."""
    found = {_MARKS[flag] for flag in flags if flag in _MARKS}
    return [mark for mark in NOTES if mark in found]


def append_marks(text: str, flags: Iterable[str]) -> str:
    return " ".join([text, *marks(flags)])


def unmarked_flags(flags: Iterable[str]) -> list[str]:
    """Return the flags that have no mark."""
    return [flag for flag in flags if flag not in _MARKS]


def contract_slowdowns(ids_and_forms: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each torch implementation that ran a slower kernel to be right on special values too."""
    found: dict[tuple[str, str], None] = {}
    for id, form in ids_and_forms:
        backend, op, _ = id.split("/")
        if backend == registry.BASELINE and form not in ("", id, registry.baseline(op)):
            found[id, form.rpartition("/")[2]] = None
    return [
        f"{id} chose {form}, since {registry.baseline(id.split('/')[1])} may break the contract: "
        "the ratio is the cost of the contract in torch"
        for id, form in found
    ]


def explain_marks(results: Sequence[Collection[str]]) -> list[str]:
    """Return an explanation of each mark in the results, with the number of marked results unless all are marked."""
    found = []
    for mark, note in NOTES.items():
        count = sum(mark in marks for marks in results)
        if count:
            of = "" if count == len(results) else f" ({count} of {len(results)} results)"
            found.append(f"{mark}{of} {note}")
    return found


def energy_resolution(energies: Iterable[Energy | None]) -> str:
    """Return a text about what the energy covers, and its resolution. Without known energies, return ""."""
    known = [energy for energy in energies if energy is not None]
    if not known:
        return ""
    step, joules = (statistics.median(values) for values in zip(*((e.step_ms, e.step_mj) for e in known), strict=True))
    shortest, most = min(e.span_ms for e in known), max(e.step_ms / e.span_ms for e in known)
    return (
        "Energy is the whole GPU's, idle power included, by NVML's counter over launches without a pause. It moves "
        f"every {step:.3g} ms, by {format_three_digits(joules)} mJ (medians). A span of launches is at least "
        f"{shortest:.0f} ms, and one step at most {most:.0%} of it."
    )


BITS = {"same_bits": "run to run", "batch_invariant": "batch-invariant"}
"""The facts about bits, and what their columns are called."""
