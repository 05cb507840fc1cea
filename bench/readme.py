"""The README's tables: the best forms by their lines of code, and the score of each implementation.

``python bench/records.py pages`` calls this beside all other pages.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kernelzoo.report import score, writing
from kernelzoo.report.reading import load
from kernelzoo.report.results import Results
from kernelzoo.report.table import Cell, Table

sys.path.insert(0, str(Path(__file__).parent))
import score_and_lines

LEFT_OUT = ("torch/auto", score.ZOO, score.OTHERS, "tilegym/chunked", "tilegym/tma", "liger/cutile")
"""Rows of the score table that the README leaves out: how they begin. The pages of the records have them."""


def page(path: Path, files: Sequence[str], check: bool) -> bool:
    """Write the README's tables, or only look whether they would change. True if they would."""
    made, changed = insert(path.read_text(encoding="utf-8"), files, path.name)
    if check:
        return bool(changed)
    path.write_text(made, encoding="utf-8")
    return False


def insert(document: str, files: Sequence[str], where: str) -> tuple[str, list[str]]:
    """The document with its tables made of these results, and the names of the blocks that this changes."""
    people = [Path(file) for file in files if "-people-" in file]
    lines = score_and_lines.best_forms(score_and_lines.forms_in([file for file in files if "-people-" not in file]))
    return writing.insert(document, {"readme": table(load(people)), "lines": lines.markdown()}, where)


def table(results: Results) -> str:
    """The score of each implementation by operation, below what was measured with what: ordered by the first
    operation as the report orders it, then by the next, with the copy on top."""
    scores: dict[str, dict[str, str]] = {}
    (group,) = results.groups
    ops = sorted(group.operations(), reverse=True)
    for op in ops:
        made = score.score_table(group, op)
        for name, mean, *_, problems in () if made is None else made.rows:
            took, _, of = problems.text.partition(" of ")
            scores.setdefault(name.text, {})[op] = mean.text + ("" if took == of else f" ({problems.text})")
    kept = [(name, held) for name, held in scores.items() if not name.startswith(LEFT_OUT)]
    kept.sort(key=lambda item: item[0] != score.COPY)
    lines = [[Cell(name), *(Cell(held.get(op, "-")) for op in ops)] for name, held in kept]
    caption = f"{score_and_lines.caption(results, score_and_lines.PACKAGES[:5])}."
    return "\n\n".join((caption, Table(["implementation", *ops], lines).markdown()))
