"""An operation's simplest variant in each language, read from its source: no language is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelzoo import operations, packages, registry
from kernelzoo.packages import LANGUAGES

PLAIN = ("rows", "fused", "eager")
"""The names of simple variants, the simplest first."""


@dataclass(frozen=True)
class Variant:
    id: str
    summary: str
    """The first line of its docstring."""
    files: tuple[Path, ...]
    """Its module, and CUDA C files of the same name."""

    @property
    def lines(self) -> int:
        """The number of lines of code in the variant's files."""
        return sum(map(lines_of, self.files))

    @property
    def code(self) -> tuple[tuple[str, str], ...]:
        """(``cuda`` or ``python``, text) of each file without its module docstring and imports, CUDA C first."""
        found = [("python" if file.suffix == ".py" else "cuda", _after_imports(file)) for file in self.files]
        return tuple(sorted(found))


def simplest_variants(op: str, languages: Iterable[str] = ()) -> dict[str, Variant | None]:
    """Return an operation's simplest variant in each language (default: all); None for a language without one.

    Raises UnknownNameError for an operation that kernelzoo does not have.

    >>> from kernelzoo import side_by_side
    >>> side_by_side.simplest_variants("softmax", ["triton"])["triton"].id
    'triton/softmax/fused'
    """
    chosen = list(languages) or list(LANGUAGES)
    return {backend: _simplest_variant(backend, op) for backend in chosen}


def _simplest_variant(backend: str, op: str) -> Variant | None:
    made = [
        Variant(i.id, i.summary, packages.files(i.id)) for i in registry.implementations(backend, op) if not i.chooses
    ]
    named = {form.id.split("/")[2]: form for form in made}
    for name in PLAIN:
        if name in named:
            return named[name]
    return min(made, key=lambda form: form.lines, default=None)


def lines_of(file: Path) -> int:
    """Return the lines of code of a file: no comments, no docstrings, no blank lines."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return sum(bool(line) and not line.startswith("//") for line in map(str.strip, text.splitlines()))
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and i not in left_out for i, line in code)


def format_comparison_page(op: str, speed_scores: Mapping[str, float] | None = None) -> str:
    """Return a Markdown page of an operation in all languages, code folded. ``speed_scores``: by variant's id."""
    meaning = operations.OPERATIONS[op].doc.partition("\n")[0]
    parts = [f"# {op} side by side", f"{meaning} Here is the plain form of each language, folded."]
    for backend, form in simplest_variants(op).items():
        if form is None:
            continue
        said = describe_variant(form, speed_scores or {})
        code = "\n\n".join(f"```{kind}\n{text}\n```" for kind, text in form.code)
        parts.append(f"<details markdown><summary>{LANGUAGES[backend]}: {said}</summary>\n\n{code}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def describe_variant(variant: Variant, speed_scores: Mapping[str, float]) -> str:
    """Return a variant's number of code lines and known speed scores, as text. A score of 1 can't be exceeded."""
    auto = f"{variant.id.rpartition('/')[0]}/auto"
    said = [f"{variant.lines} lines of code"]
    said += [f"score {speed_scores[variant.id]:.2f}"] if variant.id in speed_scores else []
    said += [f"its best form {speed_scores[auto]:.2f}"] if auto in speed_scores else []
    return ", ".join(said)


def _after_imports(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return text.strip()
    body = ast.parse(text).body
    kept = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom) and node is not body[0]]
    if not kept:
        return text.strip()
    first = min([kept[0].lineno, *(one.lineno for one in getattr(kept[0], "decorator_list", ()))])
    return "\n".join(text.splitlines()[first - 1 :]).strip()
