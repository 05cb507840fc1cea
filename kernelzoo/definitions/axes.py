"""The axes of a definition: constants become numbers, and expressions become derived sizes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernelzoo.definitions.files import DefinitionError, Json, safe_name
from kernelzoo.operations.derived import evaluate, variables


@dataclass
class Axes:
    """The axes of a definition, by the names that its operation uses."""

    where: str
    data: Json
    derived: dict[str, str] = field(default_factory=dict)
    """Derived axes, each with its expression of free axes."""
    rules: dict[str, str] = field(default_factory=dict)
    """Variable axes that a constraint of the definition defines, each with its expression."""

    def __post_init__(self) -> None:
        axes = self.data["axes"]
        for node in constraints(self.data):
            match node:
                case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[right]):
                    if axes.get(name, {}).get("type") == "var" and self._has_only_axes(right, name):
                        self.rules.setdefault(name, ast.unparse(right))

    def shape_text(self, name: str, shape: Sequence[Any]) -> str:
        """Return the axes of a tensor as text, in the syntax of an operation's declaration. Raises DefinitionError."""
        try:
            return " ".join(self.axis_text(axis) for axis in shape)
        except ValueError as error:
            raise DefinitionError(f"{self.where}: {name} has {error}") from None

    def axis_text(self, said: Any) -> str:
        """Return one axis as text: its size, or the name of a free or derived axis. Raises ValueError."""
        said = str(said).strip()
        axis = self.data["axes"].get(said, {})
        if said.isdigit() or (axis.get("type") == "var" and said not in self.rules):
            return said if said.isdigit() else safe_name(said)
        if axis.get("type") == "const":
            return str(axis["value"])
        text = self._reduce_to_free_axes(said, ())
        names = variables(text)
        if not names:
            return str(evaluate(text, {}))
        if text in names:
            return text
        name = safe_name(said) if axis else next((key for key, known in self.derived.items() if known == text), "")
        name = name or f"size_{len(self.derived)}"
        self.derived[name] = text
        return name

    def definition_sizes(self, sizes: dict[str, Any]) -> dict[str, int]:
        """Return each axis's size, by its name in the definition, from the sizes of the operation's axes."""
        known = {}
        for name in self.data["axes"]:
            size = self.axis_text(name)
            if size.isdigit() or size in sizes:
                known[name] = int(size) if size.isdigit() else sizes[size]
            elif size in self.derived and all(each in sizes for each in variables(self.derived[size])):
                known[name] = evaluate(self.derived[size], sizes)
        return known

    def _reduce_to_free_axes(self, expression: str, enclosing: tuple[str, ...]) -> str:
        """Return an expression with free axes and numbers in place of all other axes. Raises ValueError."""
        axes = self.data["axes"]
        if expression in axes:
            kind = axes[expression]
            if kind["type"] == "const":
                return str(kind["value"])
            if kind["type"] == "var" and expression not in self.rules:
                return safe_name(expression)
            if expression in enclosing:
                raise ValueError(f"an axis {expression!r} that is an expression of itself")
            text = kind["expression"] if kind["type"] == "expr" else self.rules[expression]
            return self._reduce_to_free_axes(text, (*enclosing, expression))
        try:
            names = variables(expression)
        except ValueError as error:
            raise ValueError(f"a size that is no axis: {error}") from None
        for name in names:
            if name not in axes:
                raise ValueError(f"an axis {name!r}, which is not among the axes")
        parsed = ast.parse(expression.strip(), mode="eval").body

        class Inliner(ast.NodeTransformer):
            def visit_Name(inner, node: ast.Name) -> ast.AST:  # noqa: N805  # ast's own
                return ast.parse(self._reduce_to_free_axes(node.id, enclosing), mode="eval").body

        return ast.unparse(Inliner().visit(parsed))

    def _has_only_axes(self, node: ast.expr, name: str) -> bool:
        """Whether an expression in a constraint on the axis ``name`` has only numbers and axes other than this one."""
        try:
            names = variables(ast.unparse(node))
        except ValueError:
            return False
        return name not in names and all(each in self.data["axes"] and each not in self.rules for each in names)


def constraints(data: Json) -> list[ast.expr]:
    """Return the constraints that a definition lists, and those that its reference asserts."""
    texts, found = [text for text in data.get("constraints") or () if isinstance(text, str)], list[ast.expr]()
    for text in texts:
        with suppress(SyntaxError):
            found.append(ast.parse(text.strip(), mode="eval").body)
    code = ast.parse(data["reference"]).body
    run = next(node for node in code if isinstance(node, ast.FunctionDef) and node.name == "run")
    for node in run.body:
        if isinstance(node, ast.Assert):
            found += node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    return found


def axes_equal_to_last_entry_of_inputs(data: Json) -> dict[str, str]:
    """Return {input: axis} for each constraint that an axis equals the input's last entry."""
    found = {}
    for node in constraints(data):
        match ast.parse(ast.unparse(node).replace(".item()", ""), mode="eval").body:
            case ast.Compare(
                left=ast.Name(id=axis), ops=[ast.Eq()], comparators=[ast.Subscript(value=ast.Name(id=name))]
            ):
                if axis in data["axes"] and name in data["inputs"]:
                    found[name] = axis
    return found
