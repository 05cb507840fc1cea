"""Several cards side by side: each language's score on the problems that all of them measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report import sections, standing
from kernelzoo.report.page_cells import date
from kernelzoo.report.result_tables import marks_of
from kernelzoo.report.results import Group, Problem, Results
from kernelzoo.report.table import Cell, Table

NOTE = (
    "A score is the card's own limit / time, as geometric mean over the problems that all cards measured. Compare the "
    "order of the languages, and how near its limit each card comes. Do not compare the speed of cards: equal scores "
    "are different times. Versions, commits and numbers of samples may differ too. What one card alone measured is "
    "left out."
)


def tables(results: Results) -> Mapping[str, Table]:
    """By caption: the scores in each operation, and what each card was measured with. Empty for fewer than two cards.

    Cards are of different models. They need a known limit, and the same clock and cache.
    """
    alike: dict[tuple[str, str], list[Group]] = {}
    for group in results.groups:
        whole = group.device == group.rows[0].device  # not the rest of one that another card has
        if whole and group.clock not in OF_CALLS and any(row.of_limit is not None for row in group.rows):
            alike.setdefault((group.clock, group.cache), []).append(group)
    found = {}
    for (clock, cache), cards in alike.items():
        how = f"{clock} clock, {cache} cache"
        if len(cards) > 1:
            for op in sorted({op for card in cards for op in card.operations()}):
                shared = set.intersection(*(set(card.select(op).problems) for card in cards))
                table = _scores(cards, op, shared)
                said = (
                    f"{len(shared)} problem{'s' * (len(shared) > 1)} that all cards measured"
                    if table.rows
                    else "nothing in common"
                )
                found[f"{op}: {said}, {how}"] = table
            found[f"Measured with, {how}"] = _facts(cards)
    return found


def markdown(results: Results) -> str:
    """The tables with their captions; empty for fewer than two cards."""
    found = tables(results)
    parts = [part for caption, table in found.items() for part in (f"**{caption}**", table.markdown()) if table.rows]
    marks = sections.notes_of((row for group in results.groups for row in group.rows), parts)
    return "\n\n".join([NOTE, *parts, *marks]) if found else ""


def _scores(cards: Sequence[Group], op: str, shared: set[Problem]) -> Table:
    """A column for each card. An implementation has a line if two cards measured it, on the problems of all those."""
    selections = [card.select(op) for card in cards]
    known = [standing.scores(selection) for selection in selections]
    lines = []
    for name in dict.fromkeys(name for selection in selections for name in standing.lead(selection)):
        taken = [{problem for problem in shared if (problem, name) in of_card} for of_card in known]
        common = shared.intersection(*filter(None, taken))
        if sum(map(bool, taken)) > 1 and common:
            means = [
                standing.interval([of_card[problem, name] for problem in common])[0] if here else None
                for of_card, here in zip(known, taken, strict=True)
            ]
            marks = marks_of(row for selection in selections for row in selection.of(name))
            fewer = f" ({len(common)} of {len(shared)})" * (len(common) < len(shared))
            cells = ["-" if mean is None else f"{mean:.2f}" for mean in means]
            lines.append((-len(common), -max(filter(None, means)), [name + marks + fewer, *cells]))
    rows = [list(map(Cell, cells)) for *_, cells in sorted(lines)]
    return Table(["score", *(card.device for card in cards)], rows)


def _facts(cards: Sequence[Group]) -> Table:
    """A line for each fact, the driver first, and a column for each card."""
    facts = []
    for card in cards:
        runs = [run for run, _ in card.runs()]
        versions = dict(sections.versions(card.rows))
        told = {"driver": versions.pop("driver", "-"), "commit": ", ".join(dict.fromkeys(run.commit for run in runs))}
        told |= {"measured": ", ".join(dict.fromkeys(date(run)[:10] for run in runs))}
        facts.append(told | {"samples each": sections.samples(card.rows)} | dict(sections.limits(card.rows)) | versions)
    names = dict.fromkeys(name for of_card in facts for name in of_card)
    rows = [[Cell(name), *(Cell(of_card.get(name) or "-") for of_card in facts)] for name in names]
    return Table(["", *(card.device for card in cards)], rows)
