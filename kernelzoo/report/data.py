"""A report as one JSON document."""

from typing import Any

from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report.notes import TILDE
from kernelzoo.report.results import Group, Problem, Results, Row, Selection
from kernelzoo.report.rows import quantiles

Json = dict[str, Any]


def document(results: Results) -> Json:
    """Every group with its summary and rows, and everything without a result. A ratio is a time over the baseline's."""
    return {
        "baseline": results.baseline,
        "groups": [_group(group) for group in results.groups],
        "failed": [
            {"id": one.id, **_problem(one.problem), "outcome": one.outcome, "reason": one.reason, "file": one.run.file}
            for one in results.failed
        ],
        "differing": results.differing(),
    }


def _group(group: Group) -> Json:
    selections = [group.select(op) for op in group.operations()]
    return {
        "device": group.device,
        "clock": group.clock,
        "cache": group.cache,
        "older_results_left_out": group.repeated,
        "summary": [_summary(selection, name) for selection in selections for name in selection.names],
        "rows": [_row(selection, row) for selection in selections for row in selection.rows],
    }


def _summary(selection: Selection, name: str) -> Json:
    """The means of one implementation and operation over its problems."""
    rows = selection.of(name)
    return {
        "id": rows[0].id,
        "ratio": selection.mean_ratio(name),
        "of_limit": selection.mean_of_limit(name),
        "energy_ratio": selection.mean_energy_ratio(name),
        "submit_us": selection.median_submit_us(name),
        "problems": len(rows),
        "problems_of_all": len(selection.problems),
        "disturbed": sum(TILDE in row.marks for row in rows),
    }


def _row(selection: Selection, row: Row) -> Json:
    return {
        "id": row.id,
        "form": row.form or None,
        **_problem(row.problem),
        "median_us": row.microseconds,
        "quantiles_us": quantiles(row.times, 1e-6),
        "ratio": selection.ratio(row),
        "gb_per_s": None if row.clock in OF_CALLS else row.gb_per_s,
        "of_limit": row.of_limit,
        "copy_us": row.copy_us,
        "energy": None if row.energy is None else row.energy.facts,
        "energy_ratio": selection.energy_ratio(row),
        "submit_us": row.submit_us,
        "first_call_ms": row.first_call_ms,
        "samples": row.samples,
        "flags": list(row.flags),
        "gpu": row.gpu or None,
        "breaks": row.breaks or None,
        "file": row.run.file,
    }


def _problem(problem: Problem) -> Json:
    found: Json = {"shape": list(problem.shape), "dim": problem.dim, "dtype": problem.dtype}
    found |= {"axes": dict(problem.axes)} if problem.axes else {}
    return found | ({"scalars": dict(problem.scalars)} if problem.scalars else {})
