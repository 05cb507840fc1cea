"""Several cards side by side: each language's score on the problems that all cards measured."""

from collections.abc import Mapping, Sequence

from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report import sections, standing
from kernelzoo.report.result_tables import marks_text
from kernelzoo.report.results import ComparableRows, Problem, Results, geometric_mean
from kernelzoo.report.table import Cell, Table

NOTE = (
    "A score is the card's own limit / time, as geometric mean over the problems that all cards measured. Compare the "
    "order of the languages, and how near its limit each card comes. Do not compare the speed of cards: equal scores "
    "are different times. Versions, commits and numbers of samples may differ too. What one card alone measured is "
    "left out."
)


def compare_gpus(results: Results) -> Mapping[str, Table]:
    """Return tables by caption: the scores of each operation on each GPU, and the measuring conditions of each GPU.

    Compares only GPUs of different models. Each GPU needs a measured speed limit. Clock, cache and problems must agree.
    """
    alike: dict[tuple[str, str], list[ComparableRows]] = {}
    for group in results.groups:
        whole = group.device == group.rows[0].device  # not the rows of a second card of one model
        if whole and group.clock not in OF_CALLS and any(row.of_limit is not None for row in group.rows):
            alike.setdefault((group.clock, group.cache), []).append(group)
    found: dict[str, Table] = {}
    for (clock, cache), cards in alike.items():
        how, scores = f"{clock} clock, {cache} cache", {}
        for op in sorted(set.intersection(*(set(card.operations()) for card in cards))) if len(cards) > 1 else ():
            shared_problems = set.intersection(*(set(card.select(op).problems) for card in cards))
            if (table := _score_table(cards, op, shared_problems)).rows:
                scores[f"{op}: problems that all cards measured ({len(shared_problems)}), {how}"] = table
        found |= scores | ({f"Measured with, {how}": _conditions_table(cards)} if scores else {})
    return found


def markdown(results: Results) -> str:
    """Return the tables with their captions as Markdown, or "" if there are none."""
    found = compare_gpus(results)
    parts = [part for caption, table in found.items() for part in (f"**{caption}**", table.markdown())]
    marks = sections.mark_notes((row for group in results.groups for row in group.rows), parts)
    return "\n\n".join([NOTE, *parts, *marks]) if found else ""


def _score_table(cards: Sequence[ComparableRows], op: str, shared_problems: set[Problem]) -> Table:
    """Tabulate scores on common problems: a column per card, a line per implementation that two cards measured."""
    selections = [card.select(op) for card in cards]
    lines = []
    for name in dict.fromkeys(name for selection in selections for name in standing.first_shown_names(selection)):
        known = [[row for row in selection.of(name) if row.problem in shared_problems] for selection in selections]
        limits = [{row.problem: row.of_limit for row in rows if row.of_limit} for rows in known]
        common = shared_problems.intersection(*filter(None, limits))
        if sum(map(bool, limits)) > 1 and common:
            means = [geometric_mean(map(of_card.get, common)) for of_card in limits]
            marks = marks_text(row for rows in known for row in rows)
            fewer = f" ({len(common)} of {len(shared_problems)})" * (len(common) < len(shared_problems))
            cells = ["-" if mean is None else f"{mean:.2f}" for mean in means]
            lines.append((-len(common), -max(filter(None, means)), [name + marks + fewer, *cells]))
    rows = [list(map(Cell, cells)) for *_, cells in sorted(lines)]
    return Table(["score", *(card.device for card in cards)], rows)


def _conditions_table(cards: Sequence[ComparableRows]) -> Table:
    """Tabulate measuring conditions: a column for each card, and a line for each fact, the driver first."""
    facts = []
    for card in cards:
        runs = [run for run, _ in card.runs()]
        versions = dict(sections.versions(card.rows))
        told = {"driver": versions.pop("driver", "-"), "commit": ", ".join(dict.fromkeys(run.commit for run in runs))}
        told |= {"measured": ", ".join(dict.fromkeys(run.date[:10] or "unknown" for run in runs))}
        told |= {"files": ", ".join(run.file for run in runs), "samples each": sections.sample_count_text(card.rows)}
        facts.append(told | dict(sections.device_limits(card.rows)) | versions)
    names = dict.fromkeys(name for of_card in facts for name in of_card)
    rows = [[Cell(name), *(Cell(of_card.get(name) or "-") for of_card in facts)] for name in names]
    return Table(["", *(card.device for card in cards)], rows)
