"""The data of the page's explorer: standings, and every row with its numbers and texts, by group, operation and dtype.

The texts come from the functions that format the tables. The page's script uses the numbers only to place points and
to sort. So it computes nothing that a reader could quote.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import kernelzoo
from kernelzoo import operations, packages
from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import compare, looks, standing
from kernelzoo.report.compare import Comparison
from kernelzoo.report.lines import lines_to_read
from kernelzoo.report.looks import MarkerStyle
from kernelzoo.report.notes import DAGGER, NOTES
from kernelzoo.report.results import ComparableRows, Problem, Results, Row, Selection, median
from kernelzoo.report.table import format_number, format_three_digits, ratio_text

Json = dict[str, Any]

FIELDS = (
    *("name", "problem", "us", "speed", "share", "shareText", "ratio", "ratioText", "low", "high", "interval"),
    *("verdict", "marks", "form", "run", "samples", "copy", "submit", "first", "cupti", "repeated", "flags"),
    *("breaks", "table", "mj", "perGb", "energyRatio", "watts"),
)
"""The fields of each row, in the order of their columns."""

SHORT, MIDDLE = 1024, 16384
CLASSES = {
    "short": f"short rows, up to {SHORT}",
    "middle": f"middle rows, up to {MIDDLE}",
    "long": "long rows",
    "even": "even lengths",
    "odd": "odd lengths",
    "axis": "other axes than the last",
}
"""Kinds of problems to choose from, by their name in the page's address."""

VERDICTS = tuple(verdict.value for verdict in Verdict)
"""The verdicts. :func:`compare_pairs` names a verdict by its index in this tuple."""

PACKAGE = Path(kernelzoo.__file__).parent
ROOT = PACKAGE.parent


def build_explorer_data(results: Results, marker_styles: Mapping[str, MarkerStyle]) -> Json:
    """Return all data of the page's explorer. Each subject has one operation and dtype of one group."""
    texts = source_texts(results)
    return {
        "baseline": results.baseline,
        "operations": operations.BUILT_IN,
        "fields": FIELDS,
        "classes": CLASSES,
        "looks": {id: [look.colour, look.symbol] for id, look in marker_styles.items()},
        "marks": NOTES,
        "peer": standing.PEER,
        "lines": _count_code_lines(results),
        "sources": {form: list(of_form) for form, of_form in texts.items()},
        "texts": {path: text for of_form in texts.values() for path, text in of_form.items()},
        "verdicts": VERDICTS,
        "groups": [
            {
                "id": slug,
                "label": group.label,
                "cache": group.cache,
                "runs": [[run.file, run.date_to_minute, run.commit or "unknown"] for run, _ in group.runs()],
                "checked": {op: _check_summary(results, op) for op in group.operations()},
                "standings": {op: _standings(group, op) for op in group.operations()},
                "subjects": [
                    _describe_selection(results, group, group.select(op, dtype))
                    for op in group.operations()
                    for dtype in group.dtypes(op)
                ],
            }
            for group, slug in zip(results.groups, results.slugs(), strict=True)
            if group.clock not in OF_CALLS
        ],
    }


def compress_document(document: object) -> str:
    """Return the document as compressed JSON in base64, which the page's script unpacks."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def source_texts(results: Results) -> dict[str, dict[str, str]]:
    """Return the text of each source file by path, for each kernel (an id such as ``triton/softmax/fused``)."""
    forms = sorted({row.form or row.id for group in results.groups for row in group.rows})
    paths = {form: found for form in forms if (found := source_paths(form))}
    return {form: {path: (ROOT / path).read_text(encoding="utf-8") for path in found} for form, found in paths.items()}


def compare_pairs(selection: Selection) -> dict[str, list[str]]:
    """Compare every two implementations except the baseline on each problem.

    The key ``"1 4"`` is the pair of ``selection.names[1]`` and ``names[4]``. Its value has one text per problem: ratio,
    interval, index of the verdict, and marks. If no interval is known, the text is "".
    """
    found = {}
    problems = looks.sort_by_length(selection.problems)
    for (one, name), (other, base) in combinations(enumerate(selection.names), 2):
        if selection.baseline not in (name, base):
            told = [_pair_text(selection, problem, name, base) for problem in problems]
            if any(told):
                found[f"{one} {other}"] = told
    return found


def source_paths(form_id: str) -> list[str]:
    """Return a kernel's source files, relative to the package's parent folder; [] for kernels of other packages."""
    paths = packages.files(form_id)
    return [path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(PACKAGE)]


def _pair_text(selection: Selection, problem: Problem, name: str, base_name: str) -> str:
    row, base = selection.rows_by_cell.get((problem, name)), selection.rows_by_cell.get((problem, base_name))
    if row is None or base is None:
        return ""
    found = compare.compare(row, base)
    if found.interval is None or found.verdict is None:
        return ""
    ends = (ratio_text(value) for value in (found.ratio, found.interval.low, found.interval.high))
    return ",".join([*ends, str(VERDICTS.index(found.verdict.value)), " ".join(found.warning_marks)])


def cli_options(problem: Problem) -> str:
    """Return the options that name a problem to ``kernelzoo compare`` and ``inspect``, or "" if none can."""
    if problem.scalars:
        return ""
    if problem.axes:
        return f"--axes {','.join(f'{name}={size}' for name, size in problem.axes)} --dtype {problem.dtype}"
    dim = "" if problem.dim == len(problem.shape) - 1 else f" --dim {problem.dim}"
    return f"--shape {'x'.join(map(str, problem.shape))} --dtype {problem.dtype}{dim}"


def problem_categories(problem: Problem) -> list[str]:
    """Return the names in :data:`CLASSES` that match a problem."""
    length = problem.reduced_length
    found = ["short" if length <= SHORT else "middle" if length <= MIDDLE else "long", "odd" if length % 2 else "even"]
    return found + ["axis"] * (problem.dim != len(problem.shape) - 1 and not problem.axes)


def _standings(group: ComparableRows, op: str) -> Json:
    """Return rankings by dtype and kind of problem. With several dtypes, the key ``all`` ranks them together."""
    row_scores = standing.scores(group.select(op))
    dtypes = group.dtypes(op)
    return {
        dtype or "all": {
            category: made
            for category in ("", *CLASSES)
            if (made := _rank_category(group.select(op, dtype), row_scores, category)) is not None
        }
        for dtype in [*dtypes, *[None] * (len(dtypes) > 1)]
    }


def _rank_category(selection: Selection, row_scores: standing.Scores, category: str) -> Json | None:
    asked = [problem for problem in selection.problems if not category or category in problem_categories(problem)]
    found = standing.rank_implementations(selection, row_scores, asked)
    if not found.bars:
        return None
    return {
        "said": standing.describe_fastest(found, selection),
        "shapes": standing.describe_shapes(found, len(asked)),
        "count": len(found.problems),
        "lead": standing.first_shown_names(selection),
        "bars": [
            [
                *(bar.name, *map(_rounded, (bar.score, bar.low, bar.high)), bar.count),
                *("" if bar.ratio is None else f"{bar.ratio:.2f}", bar.marks),
            ]
            for bar in found.bars
        ],
    }


def _check_summary(results: Results, op: str) -> str:
    wrong = sum(failure.op == op and failure.outcome == "wrong" for failure in results.failed)
    lost = f" {wrong} that were wrong got no time." if wrong else ""
    told = any(row.op == op and row.breaks for group in results.groups for row in group.rows)
    but = f", on ordinary values if marked {DAGGER}" * told
    return f"Checked: each result was right against a float64 reference{but}, before and while it was timed.{lost}"


def _count_code_lines(results: Results) -> Mapping[str, int]:
    """Count the lines to read of each kernelzoo implementation. ``auto`` counts every kernel that it chose."""
    forms: dict[str, dict[str, None]] = {}
    for group in results.groups:
        for row in group.rows:
            forms.setdefault(row.id, {row.id: None})[row.form or row.id] = None
    counted = {id: lines_to_read(*of_id) for id, of_id in forms.items()}
    return {id: lines for id, lines in counted.items() if lines}


def _describe_selection(all_results: Results, group: ComparableRows, selection: Selection) -> Json:
    problems, names = looks.sort_by_length(selection.problems), selection.names
    places = {problem: place for place, problem in enumerate(problems)}, {name: i for i, name in enumerate(names)}
    comparisons = compare.compare_to_baseline(selection)
    runs = {run: place for place, (run, _) in enumerate(group.runs())}
    rows = selection.rows
    moved: dict[Problem, int] = {}
    counters: Json = {}
    for row in rows:
        moved.setdefault(row.problem, row.bytes)
        facts = all_results.counters.get((group.device, row.id, row.problem.title))
        if facts:
            counters[f"{places[1][row.name]} {places[0][row.problem]}"] = facts
    cells = selection.rows_by_cell
    ordered = [cells[problem, name] for problem in problems for name in names if (problem, name) in cells]
    line = partial(_row_field_values, selection=selection, comparisons=comparisons)
    return {
        "op": rows[0].op,
        "dtype": rows[0].problem.dtype,
        "withLimit": any(row.of_limit is not None for row in rows),
        "ceiling": selection.ceiling_gb_per_s,
        "floor": median(row.floor_us for row in rows),
        "names": names,
        "lead": [places[1][name] for name in standing.first_shown_names(selection)],
        "problems": [[str(p), moved[p], p.reduced_length, cli_options(p), problem_categories(p)] for p in problems],
        "columns": list(
            zip(*([places[1][r.name], places[0][r.problem], *line(r, run=runs[r.run])] for r in ordered), strict=True)
        ),
        "counters": counters,
        "pairs": compare_pairs(selection),
    }


def _row_field_values(
    row: Row, *, selection: Selection, comparisons: Mapping[tuple[Problem, str], Comparison], run: int
) -> list[Any]:
    """Return the values of one row for :data:`FIELDS`, except the first two: name and problem."""
    comparison = comparisons.get((row.problem, row.name))
    ratio = selection.ratio(row) if comparison is None else comparison.ratio
    interval = None if comparison is None else comparison.interval
    verdict = None if comparison is None else comparison.verdict
    return [
        format_number(row.microseconds),
        format_number(row.gb_per_s),
        _rounded(row.of_limit),
        "" if row.of_limit is None else f"{row.of_limit:.0%}",
        _rounded(ratio),
        "" if ratio is None else " ".join([ratio_text(ratio), *(comparison.warning_marks if comparison else [])]),
        *((0, 0) if interval is None else (_rounded(interval.low), _rounded(interval.high))),
        "" if comparison is None else comparison.interval_text,
        "" if verdict is None else verdict.value,
        " ".join(row.marks),
        row.chosen_form,
        run,
        row.samples,
        *(
            "" if value is None else format_number(value)
            for value in (row.copy_us, row.submit_us, row.first_call_ms, row.cupti_us)
        ),
        row.repeated_rounds,
        ", ".join(row.flags),
        row.breaks,
        row.table,
        "" if row.energy is None else format_three_digits(row.energy.launch_mj),
        "" if row.j_per_gb is None else format_three_digits(row.j_per_gb),
        "" if (energy := selection.energy_ratio(row)) is None else ratio_text(energy),
        "" if row.energy is None else format_three_digits(row.energy.watts),
    ]


def _rounded(value: float | None) -> float:
    """Round a number to four digits, which are enough to draw it. None becomes 0."""
    return 0 if value is None else float(f"{value:.4g}")
