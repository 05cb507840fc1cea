"""The tables of docs/records/forms.md that list every form, and of side-by-side.md beside it that lists plain ones.

``python tests/described/form_tables.py`` writes them.
"""

from pathlib import Path

import kernelzoo
from kernelzoo import operations, side_by_side
from kernelzoo.packages import LANGUAGES
from kernelzoo.report import writing

PACKAGE = Path(kernelzoo.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"

NAMES = {**LANGUAGES, "cpu": "cpu"}
"""Languages, and what the page of forms calls them."""


def forms() -> str:
    """A table for softmax and min: their forms and choosers, who has them, and what the first that does says of it."""
    tables = []
    for op in operations.MAPPED:
        rows = [f"| {op} | {' | '.join(NAMES)} | what it does |", f"|:--|{':--|' * len(NAMES)}:--|"]
        held = {name: {i.variant: i for i in kernelzoo.implementations(name, op)} for name in NAMES}
        for variant in sorted({variant for having in held.values() for variant in having}):
            found = [held[name].get(variant) for name in NAMES]
            kinds = ["–" if i is None else "chooses" if i.chooses else "form" for i in found]
            says = next(i.summary for i in found if i is not None)
            rows.append(f"| `{variant}` | {' | '.join(kinds)} | {says} |")
        tables.append("\n".join(rows))
    return "\n\n".join(tables)


def cells() -> str:
    """A line for each operation that people call, with the lines of code of its plain forms, linked to their files."""
    rows = [f"| | {' | '.join(LANGUAGES.values())} |", f"|:--|{'--:|' * len(LANGUAGES)}"]
    for op in operations.CALLED:
        cells = [
            f"[{form.lines}](../../{form.files[0].relative_to(PACKAGE.parent).as_posix()})" if form else "–"
            for form in side_by_side.simplest_variants(op).values()
        ]
        rows.append(f"| `{op}` | {' | '.join(cells)} |")
    return "\n".join(rows)


BLOCKS = {"records/forms.md": {"forms": forms}, "records/side-by-side.md": {"cells": cells}}
"""What stands between each page's markers."""


def blocks(page: str) -> dict[str, str]:
    """What stands between a page's markers."""
    return {name: made() for name, made in BLOCKS[page].items()}


if __name__ == "__main__":
    for name in BLOCKS:
        text, changed = writing.insert((DOCS / name).read_text(encoding="utf-8"), blocks(name), name)
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"{name}:", ", ".join(changed) or "all is as it should be")
