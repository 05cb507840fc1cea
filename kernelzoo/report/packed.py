"""Compressed data of the page, used only on request: comparisons of every two rows, and sources of forms."""

from __future__ import annotations

import base64
import gzip
import json
from itertools import combinations
from pathlib import Path

import kernelzoo
from kernelzoo import operations, packages
from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import compare, looks
from kernelzoo.report.page_cells import ratio_text
from kernelzoo.report.results import Problem, Results, Selection

VERDICTS = tuple(verdict.value for verdict in Verdict)
"""In the order of their numbers in a comparison."""

PACKAGE = Path(kernelzoo.__file__).parent
ROOT = PACKAGE.parent


def packed(results: Results) -> str:
    """JSON, compressed, as base64, which a page's script can read in any browser.

    ``pairs`` is by group and subject, as in the explorer's document. The key ``"1 4"`` names two implementations by
    number. Its value has the ratio of their times for each problem. ``sources`` is text by path.
    """
    forms = {row.form or row.id for group in results.groups for row in group.rows}
    document = {
        "pairs": [
            [pairs(group.select(op, dtype)) for op in group.operations() for dtype in group.dtypes(op)]
            for group in results.groups
            if group.clock not in OF_CALLS
        ],
        "sources": {path: (ROOT / path).read_text(encoding="utf-8") for form in forms for path in sources(form)},
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def pairs(selection: Selection) -> dict[str, list[str]]:
    """Comparisons of every two implementations on each common problem, if their samples give an interval. Each has the
    ratio, its ends, the verdict's number and the marks. Those with the baseline are in its rows."""
    found = {}
    problems = looks.by_length(selection.problems)
    for (one, name), (other, base) in combinations(enumerate(selection.names), 2):
        if selection.baseline not in (name, base):
            told = [_told(selection, problem, name, base) for problem in problems]
            if any(told):
                found[f"{one} {other}"] = told
    return found


def sources(form: str) -> list[str]:
    """Paths of a form's sources, relative to the package's folder; none for forms of others."""
    paths = packages.files(form, tuple(operations.OPERATIONS))
    return [path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(PACKAGE)]


def _told(selection: Selection, problem: Problem, one: str, other: str) -> str:
    row, base = selection.cells.get((problem, one)), selection.cells.get((problem, other))
    if row is None or base is None:
        return ""
    found = compare.compare(row, base)
    if found.interval is None or found.verdict is None:
        return ""
    ends = (ratio_text(value) for value in (found.ratio, found.interval.low, found.interval.high))
    return ",".join([*ends, str(VERDICTS.index(found.verdict.value)), " ".join(found.marks)])
