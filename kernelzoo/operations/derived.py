"""Sizes of axes that follow from other sizes, by an expression such as ``heads * head_dim``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


@cache
def variables(expression: str) -> tuple[str, ...]:
    """The names in an expression, each once. Raises ValueError for anything but arithmetic of numbers and names."""
    return tuple(dict.fromkeys(_names(_parsed(expression), expression)))


def evaluate(expression: str, sizes: Mapping[str, Any]) -> int:
    """The size. Raises KeyError for a name that has none, ValueError where the result is no size."""
    try:
        found = _value(_parsed(expression), sizes)
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"{expression!r} is no size: {error}") from None
    if found != int(found) or found < 0:
        raise ValueError(f"{expression!r} is {found:g}, which is no size")
    return int(found)


def completed_sizes(derived: Mapping[str, str], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes, and those derived ones whose names all have a size. A size that is given stays."""
    found = dict(sizes)
    for name, expression in derived.items():
        if name not in found and all(each in sizes for each in variables(expression)):
            found[name] = evaluate(expression, sizes)
    return found


def contradicted(derived: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Which derived size is not what the others say, or ""."""
    right = completed_sizes(derived, {axis: size for axis, size in sizes.items() if axis not in derived})
    wrong = [axis for axis in derived if axis in sizes and axis in right and sizes[axis] != right[axis]]
    return "; ".join(f"{axis} is {sizes[axis]}, must be {derived[axis]} = {right[axis]}" for axis in wrong)


def shape_of(names: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a tensor, from the names of its axes; some are numbers. Raises KeyError."""
    return tuple(int(a) if a.isdigit() else sizes[a] for a in names)


@cache
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"{expression!r} is no expression") from None


def _names(node: ast.expr, expression: str) -> list[str]:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float()):
            return []
        case ast.Name():
            return [node.id]
        case ast.BinOp() if type(node.op) in _BINARY:
            return _names(node.left, expression) + _names(node.right, expression)
        case ast.UnaryOp() if type(node.op) in _UNARY:
            return _names(node.operand, expression)
    raise ValueError(f"{expression!r} has more than numbers, names and + - * / // % **")


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return sizes[node.id]
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, sizes))
    raise TypeError(f"{type(node).__name__} is no arithmetic")
