"""The marks behind names and times, and the line below a table that says what each mark means and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kernelzoo import registry
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.measure.measurement import BREAKS

DAGGER, TILDE = "†", "~"

NOTES = {
    DAGGER: "breaks the contract on special values; it was timed on request (--waive) and never counts as the best.",
    TILDE: "disturbed: other work, or a clock that changed, got into this measurement. Stop other programs (kernelzoo "
    "doctor names suspects) and measure again before you rank these.",
}
"""What each mark means, in the order in which marks stand."""

_MARKS = {BREAKS: DAGGER, DISTURBED: TILDE}


def marks(flags: Iterable[str]) -> list[str]:
    """The marks of these flags of a result; other flags have none."""
    found = {_MARKS[flag] for flag in flags if flag in _MARKS}
    return [mark for mark in NOTES if mark in found]


def marked(text: str, flags: Iterable[str]) -> str:
    return " ".join([text, *marks(flags)])


def unmarked(flags: Iterable[str]) -> list[str]:
    """The flags that no mark stands for."""
    return [flag for flag in flags if flag not in _MARKS]


def costs(rows: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each choice of the baseline's backend that took another form than the baseline, given ids and forms:
    it is slower for the contract's sake, and what it is compared with is the baseline all the same."""
    found: dict[tuple[str, str], None] = {}
    for id, form in rows:
        backend, op, _ = id.split("/")
        if backend == registry.BASELINE and form not in ("", id, registry.baseline(op)):
            found[id, form.rpartition("/")[2]] = None
    return [
        f"{id} took {form}, where {registry.baseline(id.split('/')[1])} may miss the contract: "
        "the ratio is what the contract costs in torch"
        for id, form in found
    ]


def lines(results: Sequence[Collection[str]]) -> list[str]:
    """A line for each mark that results bear, given the marks of each; with how many bear it, where not all do."""
    found = []
    for mark, note in NOTES.items():
        count = sum(mark in marks for marks in results)
        if count:
            of = "" if count == len(results) else f" ({count} of {len(results)} results)"
            found.append(f"{mark}{of} {note}")
    return found
