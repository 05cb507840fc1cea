"""The compressed data of the page, comparisons of every two rows, and sources of forms."""

import base64
import gzip
import json
from itertools import combinations
from pathlib import Path

import kernelzoo
from kernelzoo import packages
from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import compare, looks
from kernelzoo.report.results import Problem, Results, Selection
from kernelzoo.report.table import ratio_text

VERDICTS = tuple(verdict.value for verdict in Verdict)
"""In the order of their numbers in a comparison."""

PACKAGE = Path(kernelzoo.__file__).parent
ROOT = PACKAGE.parent


def packed(document: object) -> str:
    """The document as JSON, compressed, as base64: what the page's script unpacks."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def texts(results: Results) -> dict[str, dict[str, str]]:
    """The sources of each form, by path."""
    forms = sorted({row.form or row.id for group in results.groups for row in group.rows})
    paths = {form: found for form in forms if (found := sources(form))}
    return {form: {path: (ROOT / path).read_text(encoding="utf-8") for path in found} for form, found in paths.items()}


def pairs(selection: Selection) -> dict[str, list[str]]:
    """Comparisons of every two implementations but the baseline on each common problem. ``"1 4"`` names two by number.

    Each problem has the ratio, its ends, the verdict's number and the marks, if samples give an interval.
    """
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
    paths = packages.files(form)
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
