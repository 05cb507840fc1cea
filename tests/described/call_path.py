"""What one call enters up to its launch: functions, files and lines of code of this package."""

import ast
import functools
import io
import sys
import tokenize
from pathlib import Path
from typing import Any

import torch

import kernelzoo

PACKAGE = Path(kernelzoo.__file__).parent
_NO_CODE = {getattr(tokenize, name) for name in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")}


@functools.cache
def functions(file: Path) -> dict[int, set[int]]:
    """Lines of code of each function of a file, by the line that it begins on."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            code.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            body = set(range(node.lineno, (node.end_lineno or 0) + 1)) & code
            for line in (node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))):
                found[line] = body
    return found


def entered(call: Any) -> tuple[int, int]:
    """Files and lines of code of the functions of this package that a call enters."""
    places: set[tuple[Path, int]] = set()

    def note(frame: Any, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in file.parents:
            places.add((file, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    lines: dict[Path, set[int]] = {}
    for file, line in places:
        if line in functions(file):
            lines.setdefault(file, set()).update(functions(file)[line])
    return len(lines), sum(map(len, lines.values()))


def main(form: str) -> None:
    backend, op, variant = form.split("/")
    owner = kernelzoo.get(backend)
    x = torch.randn(4, 256, device="cuda" if "cpu" not in owner.devices else "cpu")

    def call() -> None:
        getattr(owner, op)(x, variant=variant)

    getattr(owner, op)(x[:, :128].contiguous(), variant=variant)  # what is compiled once
    first = entered(call)
    for _ in range(3):
        call()
    print(form, *first, *entered(call))


if __name__ == "__main__":
    for form in sys.argv[1:]:
        main(form)
