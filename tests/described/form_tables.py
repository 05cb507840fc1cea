"""The tables of docs/kernels.md that list every form. ``python tests/described/form_tables.py`` writes them."""

import ast
from functools import cache
from pathlib import Path

import kernelzoo
from kernelzoo import operations
from kernelzoo.report import markers

PACKAGE = Path(kernelzoo.__file__).parent
PAGE = PACKAGE.parent / "docs" / "kernels.md"

NAMES = {
    "triton": "Triton", "gluon": "Gluon", "cutile": "cuTile", "cute": "CuTe", "helion": "Helion", "cupy": "CUDA C",
    "numba": "Numba", "cpu": "cpu", "torch": "torch",
}  # fmt: skip
"""Languages, in the order of the page, and what it calls them."""


@cache
def registered(op: str) -> dict[str, dict[str, tuple[str, str]]]:
    """By variant and language, what it is (``form``, ``chooses``) and the first line of its docstring."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for language in NAMES:
        for path in sorted((PACKAGE / "kernels" / language / op).glob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                    decorator = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
                    kind = {"register": "form", "chooser": "chooses"}.get(decorator)
                    if kind is not None:
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


def blocks() -> dict[str, str]:
    """What stands between the page's markers."""
    return {"forms": forms()}


if __name__ == "__main__":
    page, changed = markers.insert(PAGE.read_text(encoding="utf-8"), blocks(), PAGE.name)
    PAGE.write_text(page, encoding="utf-8")
    print("written:", ", ".join(changed) or "nothing, all is as it should be")
