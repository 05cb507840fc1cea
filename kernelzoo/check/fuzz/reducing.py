"""Failing cases, which Hypothesis reduces to simpler ones and stores for later runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kernelzoo.check.fuzz.case import Case, CaseError
from kernelzoo.check.fuzz.drawing import case_strategy
from kernelzoo.check.fuzz.parsing import parse_case

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase

NEEDED = "to reduce and keep failures: python -m pip install 'hypothesis>=6.140'"
"""The remedy to show if :func:`reduce_case`, :func:`update_failure` or :func:`stored_failures` raises ImportError."""


def reduce_case(op: str, case: Case, fails: Callable[[Case], bool], tries: int) -> Case:
    """Return a simpler case that still fails, after at most ``tries`` runs. A case with empty ``drawn`` stays as is."""
    from hypothesis import Phase, Verbosity, find, settings
    from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes
    from hypothesis.errors import NoSuchExample

    known = {str(case): True}

    def failed(candidate: Case) -> bool:
        """Whether a case fails. The answer is cached: Hypothesis asks twice, and a kernel may fail only sometimes."""
        text = str(candidate)
        if text not in known:
            takes_gigabytes = candidate.has_far_rows and not case.has_far_rows
            known[text] = len(known) <= tries and not takes_gigabytes and fails(candidate)
        return known[text]

    elements, choices = case.drawn
    if not choices:
        return case
    database, key = InMemoryExampleDatabase(), op.encode()
    # If a case used up all the choices, Hypothesis would not reduce it. So there is one more.
    database.save(key, choices_to_bytes((*choices, 0)))
    phases = Phase.reuse, Phase.shrink
    told = settings(database=database, phases=phases, deadline=None, verbosity=Verbosity.quiet, print_blob=False)
    try:
        return find(case_strategy(op, elements), failed, settings=told, database_key=key)
    except NoSuchExample:
        return case


def update_failure(id: str, case: Case, *, failed: bool) -> None:
    """Store a failure of an implementation in Hypothesis's database, or delete a case that passes."""
    database = _failure_database()
    (database.save if failed else database.delete)(id.encode(), str(case).encode())


def stored_failures(id: str) -> list[Case]:
    """Return the stored failures of an implementation."""
    found = []
    for text in sorted(_failure_database().fetch(id.encode())):
        try:
            found.append(parse_case(text.decode(), id.split("/")[1]))
        except (CaseError, UnicodeDecodeError):  # stored by another version
            continue
    return found


def _failure_database() -> ExampleDatabase:
    """Return the database of Hypothesis's own examples."""
    from hypothesis.database import DirectoryBasedExampleDatabase

    return DirectoryBasedExampleDatabase(
        Path(os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY", ".hypothesis"), "examples")
    )
