"""Tables of docs/kernels.md that are made of the source: what a learner reads for one form, and all forms there are.

``python tests/described/reading.py`` writes them into the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import kernelzoo
from kernelzoo import operations
from kernelzoo.report import markers

PACKAGE = Path(kernelzoo.__file__).parent
PAGE = PACKAGE.parent / "docs" / "kernels.md"

MOST_LINES = 310
"""Of code that a reader of one form goes through, from the public call on."""

NAMES = {
    "triton": "Triton",
    "gluon": "Gluon",
    "cutile": "cuTile",
    "cute": "CuTe",
    "helion": "Helion",
    "cupy": "CUDA C",
    "numba": "Numba",
    "cpu": "cpu",
    "torch": "torch",
}
"""Languages, in the order of the page, and what it calls them."""

CALL = (
    "calls/methods.py:method_of.made",
    "calls/backend.py:Backend._launch",
    "operations/meaning.py:Operation.launch",
    "operations/meaning.py:Operation._launch_rows",
    "operations/canonical.py:launch_rows",
)
"""What a reader of any form goes through first."""

# From a form's bind on, as far as a float32 row of whole vectors goes: its plan, the helpers that make a launch of it,
# the kernel, and what the kernel calls. Of what makes device functions for many cases, those of this one are named.
FUSED = {
    "triton": (
        "softmax/fused.py:fused",
        "shared/jit.py:edges_of",
        "softmax/tiles.py:row_columns",
        "softmax/tiles.py:tile_columns",
        "softmax/fused.py:warps_of",
        "softmax/tiles.py:row_warps",
        "shared/jit.py:row_arguments",
        "shared/jit.py:multiple_of",
        "shared/jit.py:bound",
        "shared/jit.py:compiler_options",
        "shared/jit.py:compiled",
        "shared/jit.py:launch_of",
        "softmax/fused.py:fused_kernel",
        "words.py:await_last_launch",
        "words.py:row_start",
        "softmax/words.py:softmax_row",
        "softmax/words.py:softmax_of",
        "softmax/words.py:zero_if_empty",
        "softmax/words.py:exponential",
    ),
    "cupy": (
        "softmax/fused.py:fused",
        "softmax/fused.py:_items",
        "launch.py:planned",
        "launch.py:_ready",
        "launch.py:_parameters",
        "launch.py:_Here._compiled",
        "softmax/fused.cu:fused",
        "row.cuh:begin",
        "row.cuh:Row",
        "softmax/held.cuh:Kept",
        "softmax/held.cuh:Held",
        "softmax/held.cuh:merge_held_by_block",
        "softmax/pairs.cuh:merge_block",
        "softmax/pairs.cuh:merge_lanes",
        "softmax/pairs.cuh:merge_slots",
        "softmax/pairs.cuh:zero_if_empty",
        "softmax/pairs.cuh:exponential",
    ),
    "numba": (
        "softmax/fused.py:fused",
        "softmax/fused.py:fused_tiling",
        "softmax/tiling.py:tiles_of",
        "launch.py:planned",
        "launch.py:settled",
        "launch.py:over_rows",
        "launch.py:prepare",
        "launch.py:Kernel.call",
        "launch.py:Loaded.bound",
        "softmax/fused.py:fused_kernel",
        "row.py:begin",
        "row.py:seating.whole_block",
        "row.py:access.bounds",
        "row.py:access.share",
        "row.py:access.read",
        "row.py:access.write",
        "row.py:_reduction.over_block",
        "softmax/arithmetic.py:finite_of.finite",
        "softmax/arithmetic.py:arithmetic.wide_top",
        "softmax/arithmetic.py:arithmetic.wide_total",
        "softmax/arithmetic.py:arithmetic.wide_finish",
    ),
}


def lines(place: str) -> int:
    """Lines of code of a function or struct, ``file:name`` or ``file:outer.inner``; no comments, no docstrings."""
    file, _, name = place.partition(":")
    path = PACKAGE / file
    source = path.read_text(encoding="utf-8").splitlines()
    return _of_python(source, name) if path.suffix == ".py" else _of_cuda(source, name)


def _of_python(source: list[str], name: str) -> int:
    node: ast.AST = ast.parse("\n".join(source))
    for part in name.split("."):
        node = next(
            n
            for n in ast.walk(node)
            if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == part and n is not node
        )
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    left_out = set()
    if ast.get_docstring(node) is not None:
        left_out = set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    numbered = [(i, source[i - 1].strip()) for i in range(first, (node.end_lineno or 0) + 1)]
    return sum(bool(line) and not line.startswith("#") and i not in left_out for i, line in numbered)


def _of_cuda(source: list[str], name: str) -> int:
    """The first one of that name that begins at the margin, its template line included."""
    begins = re.compile(rf"struct {name} (?:: .*)?\{{|(?:__global__|__device__).*\b{name}\(")
    first = last = next(i for i, line in enumerate(source) if not line.startswith((" ", "/")) and begins.search(line))
    while source[first - 1].startswith("template"):
        first -= 1
    depth, opened = 0, False
    while not opened or depth:
        depth += source[last].count("{") - source[last].count("}")
        opened = opened or "{" in source[last]
        last += 1
    code = [line.strip() for line in source[first:last]]
    return sum(bool(line) and not line.startswith(("//", "#")) for line in code)


def own_lines(language: str) -> int:
    """Of one language's fused, from its bind on."""
    return sum(lines(place) for place in _own(language))


def _own(language: str) -> list[str]:
    """Where a language's fused is read, from the package's folder."""
    return [f"kernels/{'' if place.startswith('shared/') else f'{language}/'}{place}" for place in FUSED[language]]


def common_lines() -> int:
    return sum(lines(place) for place in CALL)


def reading() -> str:
    """What is read for fused: first for any form, then in each GPU language."""
    tables = [_table("any form", CALL, [f"| in all | {common_lines()} |"])]
    for language in FUSED:
        own = own_lines(language)
        ends = [f"| in all | {own} |", f"| from the public call on | {common_lines() + own} |"]
        tables.append(_table(f"{language}/softmax/fused", _own(language), ends))
    return "\n\n".join(tables)


def _table(title: str, places: Sequence[str], ends: Sequence[str]) -> str:
    files: dict[str, list[str]] = {}
    for place in places:
        files.setdefault(place.partition(":")[0], []).append(place)
    rows = []
    for file, held in files.items():
        names = ", ".join(f"`{place.partition(':')[2]}`" for place in held)
        rows.append(f"| [{Path(file).name}](../kernelzoo/{file}): {names} | {sum(map(lines, held))} |")
    return "\n".join([f"| {title} | lines |", "|:--|--:|", *rows, *ends])


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
    return {"reading": reading(), "forms": forms()}


if __name__ == "__main__":
    page, changed = markers.insert(PAGE.read_text(encoding="utf-8"), blocks(), PAGE.name)
    PAGE.write_text(page, encoding="utf-8")
    print("written:", ", ".join(changed) or "nothing, all is as it should be")
