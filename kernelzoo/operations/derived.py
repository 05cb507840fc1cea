"""Sizes of axes that follow from other sizes, by an expression such as ``heads * head_dim``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

_OPERATORS = ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.UAdd | ast.USub
_ARITHMETIC = _OPERATORS | ast.BinOp | ast.UnaryOp | ast.Constant | ast.Name | ast.Load


@cache
def variables(expression: str) -> tuple[str, ...]:
    """Return the names in an expression, each once. Raises ValueError unless it is arithmetic of numbers and names."""
    nodes = list(ast.walk(_parsed(expression)))
    numbers = all(type(node.value) in (int, float) for node in nodes if isinstance(node, ast.Constant))
    if not numbers or not all(isinstance(node, _ARITHMETIC) for node in nodes):
        raise ValueError(f"{expression!r} has more than numbers, names and + - * / // % **")
    named = [(node.lineno, node.col_offset, node.id) for node in nodes if isinstance(node, ast.Name)]
    return tuple(dict.fromkeys(name for _, _, name in sorted(named)))


def evaluate(expression: str, sizes: Mapping[str, Any]) -> int:
    """Evaluate a size. Raises KeyError for a name without a size, ValueError if the result is no size."""
    known = {name: sizes[name] for name in variables(expression)}
    try:
        found = eval(_compiled(expression), {"__builtins__": {}}, known)
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"{expression!r} is no size: {error}") from None
    if found != int(found) or found < 0:
        raise ValueError(f"{expression!r} is {found:g}, which is no size")
    return int(found)


def completed_sizes(derived: Mapping[str, str], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes, and each derived size that follows from them. A size in ``sizes`` is not replaced."""
    found = dict(sizes)
    for name, expression in derived.items():
        if name not in found and all(each in sizes for each in variables(expression)):
            found[name] = evaluate(expression, sizes)
    return found


def contradicting_sizes(derived: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Say which derived sizes contradict the sizes that they follow from; "" if none does."""
    right = completed_sizes(derived, {axis: size for axis, size in sizes.items() if axis not in derived})
    wrong = [axis for axis in derived if axis in sizes and axis in right and sizes[axis] != right[axis]]
    return "; ".join(f"{axis} is {sizes[axis]}, must be {derived[axis]} = {right[axis]}" for axis in wrong)


def shape_of(names: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of a tensor from the names of its axes. A name may be a number. Raises KeyError."""
    return tuple(int(a) if a.isdigit() else sizes[a] for a in names)


@cache
def _compiled(expression: str) -> CodeType:
    return compile(ast.Expression(_parsed(expression)), "<size>", "eval")


def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"{expression!r} is no expression") from None
