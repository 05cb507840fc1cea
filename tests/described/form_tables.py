"""The tables of docs/records/forms.md that list every form, and of side-by-side.md beside it that lists plain ones.

``python tests/described/form_tables.py`` writes them.
"""

import ast
from functools import cache
from pathlib import Path

import kernelzoo
from kernelzoo import operations, side_by_side
from kernelzoo.packages import LANGUAGES
from kernelzoo.report import writing

PACKAGE = Path(kernelzoo.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"

NAMES = {**LANGUAGES, "cpu": "cpu"}
"""Languages, and what the page of forms calls them."""


@cache
def registered(op: str) -> dict[str, dict[str, tuple[str, str]]]:
    """By variant and language, what it is (``form``, ``chooses``) and the first line of its docstring."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for language in NAMES:
        folder = PACKAGE / "kernels" / language
        for path in (*sorted((folder / op).glob("*.py")), *folder.glob("choose.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                    decorator = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
                    kind = {"register": "form", "chooser": "chooses"}.get(decorator)
                    if kind is not None and call.args[1].value == op:  # type: ignore[attr-defined]
                        doc = (ast.get_docstring(node) or "").partition("\n")[0]  # type: ignore[arg-type]
                        found.setdefault(call.args[2].value, {})[language] = kind, doc  # type: ignore[attr-defined]
    return found


def forms() -> str:
    """A table for softmax and min: their forms and choosers, who has them, and what the first that does says of it."""
    tables = []
    for op in operations.MAPPED:
        rows = [f"| {op} | {' | '.join(NAMES)} | what it does |", f"|:--|{':--|' * len(NAMES)}:--|"]
        for name, held in sorted(registered(op).items()):
            kinds = [held[language][0] if language in held else "–" for language in NAMES]
            says = next(held[language][1] for language in NAMES if language in held)
            rows.append(f"| `{name}` | {' | '.join(kinds)} | {says} |")
        tables.append("\n".join(rows))
    return "\n\n".join(tables)


def cells() -> str:
    """A line for each operation that people call, with the lines of code of its plain forms, linked to their files."""
    rows = [f"| | {' | '.join(LANGUAGES.values())} |", f"|:--|{'--:|' * len(LANGUAGES)}"]
    for op in operations.CALLED:
        cells = [
            f"[{form.lines}](../../{form.files[0].relative_to(PACKAGE.parent).as_posix()})" if form else "–"
            for form in side_by_side.forms(op).values()
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
